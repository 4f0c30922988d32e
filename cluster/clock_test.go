package cluster

import (
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const leasesPath = "/apis/coordination.k8s.io/v1/leases"

func renewed(at time.Time) *coordinationv1.LeaseList {
	return &coordinationv1.LeaseList{ListMeta: metav1.ListMeta{ResourceVersion: "7"}, Items: []coordinationv1.Lease{{
		ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n1"},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: at}},
	}}}
}

// TestClocks: the API server says that it is seven o'clock. What the objects show, and
// what other answers say, decides whether that is believed.
func TestClocks(t *testing.T) {
	const half = 30 * time.Minute
	for name, test := range map[string]struct {
		// renewed is when a lease was renewed; zero is never.
		renewed time.Duration
		// other is how far the Date of some answers is off the others.
		other time.Duration
		want  time.Duration // of TakenAt
		err   string
	}{
		"right":                          {renewed: -5 * time.Second},
		"a little behind":                {renewed: 90 * time.Second},
		"behind":                         {renewed: half, err: "spec.renewTime of Lease kube-node-lease/n1 is 2031-05-06T07:38:09Z"},
		"ahead":                          {renewed: -half},
		"behind, as one of two":          {renewed: half, other: half + 10*time.Second, want: half},
		"right, and the other behind":    {renewed: -5 * time.Second, other: -half},
		"both behind":                    {renewed: 2 * half, other: half, err: "spec.renewTime of Lease kube-node-lease/n1 is 2031-05-06T08:08:09Z"},
		"two that nothing decides about": {other: half, err: "clocks that disagree, 2031-05-06T07:0"},
		"the other ahead":                {renewed: -5 * time.Second, other: half, err: "clocks that disagree"},
		"the other a little off":         {renewed: -5 * time.Second, other: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			if test.renewed != 0 {
				a.serve(leasesPath, renewed(serverTime.Add(test.renewed)))
			}
			a.raw = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/api/v1/nodes" {
					w.Header().Set("Date", serverTime.Format(http.TimeFormat))
				} else {
					w.Header().Set("Date", serverTime.Add(test.other).Format(http.TimeFormat))
				}
				return false
			}
			s, err := a.cluster(Options{}).Snapshot(t.Context())
			switch {
			case test.err != "":
				if err == nil || !strings.Contains(err.Error(), test.err) || strings.Contains(err.Error(), "\n") {
					t.Errorf("%v", err)
				}
			case err != nil:
				t.Error(err)
			default:
				if off := s.TakenAt.Sub(serverTime.Add(test.want)); off.Abs() > 20*time.Second {
					t.Errorf("taken at %s", s.TakenAt)
				}
			}
		})
	}
}

// TestWatchedClock: while the API server's clock is behind, all that a watch follows is
// a gap.
func TestWatchedClock(t *testing.T) {
	a := newAPI(t)
	a.noProtobuf = true
	a.streams()
	a.serve(leasesPath, renewed(serverTime.Add(30*time.Minute)))
	w := begin(t, a, Options{})
	wrong := until(t, w, "a gap of everything", func(s *snapshot.Snapshot) bool { return len(s.Gaps) == len(snapshot.Kinds()) })
	if !strings.Contains(wrong.Gaps[0].Detail, "spec.renewTime of Lease kube-node-lease/n1") {
		t.Errorf("%+v", wrong.Gaps[0])
	}
	a.mu.Lock()
	a.date = serverTime.Add(30 * time.Minute)
	a.mu.Unlock()
	if err := w.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, w, "no gap", func(s *snapshot.Snapshot) bool { return len(s.Gaps) == 0 })
}
