package reconcile

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestMemoryOf: a log counts only if it is the log of the right controller, and only some
// logs prove something by what they do not mention.
func TestMemoryOf(t *testing.T) {
	taken := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	acquired := taken.Add(-time.Hour)
	started := func(after time.Duration) *time.Time { at := acquired.Add(after); return &at }
	tests := []struct {
		name    string
		log     snapshot.Controller
		noLease bool
		counts  bool
		leads   bool
	}{
		{"the leader's", snapshot.Controller{Started: started(2 * time.Second), Last: taken}, false, true, true},
		{"the leader's, by name", snapshot.Controller{Identity: "cp1_a", Started: started(2 * time.Second), Last: taken}, false, true, true},
		{"clocks that differ a little", snapshot.Controller{Started: started(-10 * time.Second), Last: taken}, false, true, true},
		{"another replica's", snapshot.Controller{Identity: "cp2_b", Started: started(2 * time.Second), Last: taken}, false, false, false},
		{"an earlier leader's", snapshot.Controller{Started: started(-time.Hour), Last: taken}, false, false, false},
		{"one that ended before", snapshot.Controller{Last: acquired.Add(-time.Hour)}, false, false, false},
		{"rotated", snapshot.Controller{Last: taken}, false, true, false},
		{"hours off, as in another zone", snapshot.Controller{Started: started(30 * time.Minute), Last: taken}, false, true, false},
		{"without a lease", snapshot.Controller{Started: started(0), Last: taken}, true, true, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			holder, at := "cp1_a", metav1.NewMicroTime(acquired)
			objects := snapshot.Objects{Leases: []*coordinationv1.Lease{{
				ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: ControllerManager},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, AcquireTime: &at},
			}}}
			if test.noLease {
				objects = snapshot.Objects{}
			}
			s := snapshot.New(taken, snapshot.Source{}, objects, nil)
			s.Controller = &test.log
			m := MemoryOf(s)
			if (m != nil) != test.counts || m != nil && m.Leads != test.leads {
				t.Errorf("%+v, want counts %v, leads %v", m, test.counts, test.leads)
			}
		})
	}
	// Where leases could not be read, the controller's own word that it leads counts, as long
	// as it still writes.
	for name, test := range map[string]struct {
		log   snapshot.Controller
		leads bool
	}{
		"says that it leads":              {snapshot.Controller{Identity: "cp1_a", Started: started(0), Last: taken.Add(-time.Minute)}, true},
		"does not say so":                 {snapshot.Controller{Started: started(0), Last: taken.Add(-time.Minute)}, false},
		"its log does not show its start": {snapshot.Controller{Identity: "cp1_a", Last: taken.Add(-time.Minute)}, false},
		"has written nothing for 6 min":   {snapshot.Controller{Identity: "cp1_a", Started: started(0), Last: taken.Add(-6 * time.Minute)}, false},
	} {
		s := snapshot.New(taken, snapshot.Source{}, snapshot.Objects{}, []snapshot.Gap{{Kind: snapshot.Leases, Reason: snapshot.ReasonNotInBundle}})
		s.Controller = &test.log
		if m := MemoryOf(s); m == nil || m.Leads != test.leads {
			t.Errorf("%s: %+v", name, m)
		}
	}
	if MemoryOf(snapshot.New(taken, snapshot.Source{}, snapshot.Objects{}, nil)) != nil {
		t.Error("there is a memory without a log")
	}
}

// TestUnheard: that a log does not mention a pair proves something only where the controller
// would have logged it.
func TestUnheard(t *testing.T) {
	taken := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	pair := VolumeNode{Volume: "kubernetes.io/csi/d^v", Node: "n1"}
	tests := []struct {
		name string
		edit func(*Memory)
		made time.Time
		want bool
	}{
		{"made while the log ran", func(*Memory) {}, taken.Add(-time.Minute), true},
		{"made after the log's end", func(*Memory) {}, taken, false},
		{"made before the start", func(*Memory) {}, taken.Add(-2 * time.Hour), false},
		{"not known to lead", func(m *Memory) { m.Leads = false }, taken.Add(-time.Minute), false},
		{"at --v=0", func(m *Memory) { m.Verbose = false }, taken.Add(-time.Minute), false},
		{"mentioned", func(m *Memory) { m.Pairs = []snapshot.RememberedPair{{Volume: pair.Volume, Node: pair.Node}} }, taken.Add(-time.Minute), false},
		{"mentioned on another node", func(m *Memory) { m.Pairs = []snapshot.RememberedPair{{Volume: pair.Volume, Node: "n2"}} }, taken.Add(-time.Minute), true},
		{"mentioned without a node", func(m *Memory) { m.Unclear = append(m.Unclear, pair.Volume) }, taken.Add(-time.Minute), false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			started := taken.Add(-time.Hour)
			m := &Memory{Controller: &snapshot.Controller{Started: &started, Last: taken, Verbose: true}, Leads: true, takenAt: taken}
			test.edit(m)
			va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(test.made)}}
			if got := m.Unheard(pair, va); got != test.want {
				t.Error(got)
			}
		})
	}
}

// TestNextAttempt: a back-off that is over, doubtful or about another node gives no next
// attempt.
func TestNextAttempt(t *testing.T) {
	taken := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	of := func(node string, after time.Duration, doubtful bool) snapshot.BackOff {
		return snapshot.BackOff{Volume: "v", Node: types.NodeName(node), Operation: snapshot.AttachOperation, Until: taken.Add(after), Doubtful: doubtful}
	}
	for _, test := range []struct {
		backOff snapshot.BackOff
		node    string
		want    bool
	}{
		{of("", time.Second, false), "n2", true}, {of("n1", time.Second, false), "n1", true}, {of("n1", time.Second, false), "n2", false},
		{of("", -time.Second, false), "n1", false}, {of("", time.Second, true), "n1", false},
	} {
		m := &Memory{Controller: &snapshot.Controller{BackOffs: []snapshot.BackOff{{Volume: "u"}, test.backOff, {Volume: "w"}}}, takenAt: taken}
		pair := VolumeNode{Volume: "v", Node: types.NodeName(test.node)}
		if got := m.NextAttempt(pair, snapshot.AttachOperation); got.IsZero() == test.want {
			t.Errorf("%+v on %s: %s", test.backOff, test.node, got)
		}
		if got := m.NextAttempt(pair, snapshot.DetachOperation); !got.IsZero() {
			t.Errorf("a detach waits for an attach: %s", got)
		}
	}
}
