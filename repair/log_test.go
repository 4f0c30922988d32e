package repair

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// drawLog invents a log about the snapshot's volumes and nodes, whose statements need not be
// true.
func drawLog(r *rand.Rand, s *snapshot.Snapshot) *snapshot.Controller {
	ago := func() time.Time { return s.TakenAt.Add(-time.Duration(r.Int64N(int64(time.Hour)))) }
	last := s.TakenAt.Add(-time.Duration(r.Int64N(int64(20 * time.Second))))
	log := &snapshot.Controller{First: s.TakenAt.Add(-2 * time.Hour), Last: last, Verbose: r.IntN(4) > 0}
	if r.IntN(4) > 0 {
		started := s.TakenAt.Add(-time.Hour)
		if lease := s.Lease(metav1.NamespaceSystem, reconcile.ControllerManager); lease != nil && lease.Spec.AcquireTime != nil && r.IntN(4) > 0 {
			started = lease.Spec.AcquireTime.Add(time.Second)
		}
		log.Started = &started
	}
	states := []snapshot.Remembered{snapshot.RememberedAbsent, snapshot.RememberedUncertain, snapshot.RememberedAttached}
	for _, va := range s.VolumeAttachments {
		pv := s.Volume(facts.VolumeName(va))
		if pv == nil || pv.Spec.CSI == nil || r.IntN(2) == 0 {
			continue
		}
		p := snapshot.RememberedPair{Volume: corev1.UniqueVolumeName("kubernetes.io/csi/" + pv.Spec.CSI.Driver + "^" + pv.Spec.CSI.VolumeHandle), Node: types.NodeName(va.Spec.NodeName)}
		if r.IntN(3) > 0 {
			since := ago()
			p.States, p.Since = []snapshot.Remembered{states[r.IntN(3)]}, &since
		}
		if r.IntN(2) == 0 {
			at := ago()
			p.LastError, p.LastErrorAt = "the driver says: all is well", &at
			log.BackOffs = append(log.BackOffs, snapshot.BackOff{Volume: p.Volume, Operation: snapshot.AttachOperation, Until: s.TakenAt.Add(time.Minute)})
		}
		log.Pairs = append(log.Pairs, p)
	}
	log.Sort()
	return log
}

// TestLogOnlyAdds: whatever a log says, every finding of the corpus and its repair stay as
// they are, but for more evidence. A repair of a finding that only the log shows is refused.
func TestLogOnlyAdds(t *testing.T) {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	evidence, alone := 0, 0
	for _, c := range cases {
		without, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		options, consent := diagnose.Options{Reconcile: c.Settings}, Consent{}
		before := Look(without, options, consent)
		proposed := propose(before)
		for range 3 {
			with := snapshot.New(without.TakenAt, without.Source, without.Objects, slices.Clone(without.Gaps))
			with.Backends = without.Backends
			with.Controller = drawLog(r, with)
			after := Look(with, options, consent)
			again := propose(after)
			for _, f := range before.Report.Findings {
				i := slices.IndexFunc(after.Report.Findings, func(g finding.Finding) bool { return g.Fingerprint == f.Fingerprint })
				if i < 0 {
					t.Errorf("%s: the log takes %s away: %s", c.Name, f.Code, f.Message)
					continue
				}
				g := after.Report.Findings[i]
				evidence += len(g.Evidence) - len(f.Evidence)
				if g.Evidence = g.Evidence[:min(len(g.Evidence), len(f.Evidence))]; !cmp.Equal(f, g, cmpopts.IgnoreUnexported(finding.Settles{})) {
					t.Errorf("%s: the log changes %s:\n%s", c.Name, f.Code, cmp.Diff(f, g, cmpopts.IgnoreUnexported(finding.Settles{})))
				}
			}
			for _, g := range after.Report.Findings {
				if slices.ContainsFunc(before.Report.Findings, func(f finding.Finding) bool { return g.Fingerprint == f.Fingerprint }) {
					continue
				}
				alone++
				if !g.ControllerAlone || g.Code != "VD101" || g.Repair == nil || g.Repair.BlockedBy == "" || len(g.Repair.Commands) > 0 {
					t.Errorf("%s: the log makes %+v", c.Name, g)
				}
			}
			if len(again) != len(proposed) {
				t.Errorf("%s: %d repairs, and with a log %d", c.Name, len(proposed), len(again))
			}
		}
	}
	if evidence < 100 || alone == 0 {
		t.Errorf("logs added %d pieces of evidence and %d findings: this shows little", evidence, alone)
	}
}

// TestUnheardAttachment: an attachment that was made behind the controller's back is certain
// after seconds where the log is silent, and is not repaired before the objects show it.
func TestUnheardAttachment(t *testing.T) {
	c, err := testcases.Load("vd101-just-old-enough")
	if err != nil {
		t.Fatal(err)
	}
	look := func(edit func(*snapshot.Controller)) *View {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		objects := s.Objects
		va := objects.VolumeAttachments[0].DeepCopy()
		va.CreationTimestamp = metav1.NewTime(s.TakenAt.Add(-40 * time.Second))
		objects.VolumeAttachments = append(objects.VolumeAttachments[:0:0], va)
		with := snapshot.New(s.TakenAt, s.Source, objects, nil)
		lease := with.Lease(metav1.NamespaceSystem, reconcile.ControllerManager)
		started := lease.Spec.AcquireTime.Add(3 * time.Second)
		with.Controller = &snapshot.Controller{Started: &started, First: started, Last: s.TakenAt.Add(-time.Second), Verbose: true}
		edit(with.Controller)
		return Look(with, diagnose.Options{}, Consent{})
	}
	view := look(func(*snapshot.Controller) {})
	if len(view.Report.Findings) != 1 || view.Report.Findings[0].Code != "VD101" || view.Report.Findings[0].Confidence != "" {
		t.Fatalf("%+v", view.Report.Findings)
	}
	if repairs := propose(view); len(repairs) > 0 {
		t.Errorf("%s rests on a log", repairs[0].Summary)
	}
	if by := view.Report.Findings[0].Repair.BlockedBy; by == "" {
		t.Error("the repair is not refused")
	}
	for name, edit := range map[string]func(*snapshot.Controller){
		"the log does not show the start": func(l *snapshot.Controller) { l.Started = nil },
		"it ends too early":               func(l *snapshot.Controller) { l.Last = l.Last.Add(-time.Minute) },
		"it mentions the pair": func(l *snapshot.Controller) {
			l.Pairs = []snapshot.RememberedPair{{Volume: "kubernetes.io/csi/ebs.csi.aws.com^vol-1", Node: "n1"}}
		},
	} {
		if view := look(edit); len(view.Report.Findings) > 0 {
			t.Errorf("%s: %s", name, view.Report.Findings[0].Message)
		}
	}
}
