package diagnose_test

import (
	"slices"
	"testing"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestRefusalsOfThePast: a driver's message about another machine makes a finding certain only
// for somebody who has seen it refuse twice since the last other VolumeAttachment of the volume
// was gone.
func TestRefusalsOfThePast(t *testing.T) {
	for name, code := range map[string]finding.Code{
		"vd404-detached-since": "VD404", "vd404-finalizer-was-stripped": "VD404", "vd404-foreign-machine": "VD404", "vd404-nobody-named": "VD404", "vd610-near-node-of-ours": "VD404",
		"vd410-another-machine": "VD410", "vd410-detached-since": "VD410", "vd410-may-still-detach": "VD410",
	} {
		c, err := testcases.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		look := func(f func(*snapshot.Snapshot, string) *snapshot.Followed) finding.Finding {
			s, err := c.Snapshot()
			if err != nil {
				t.Fatal(err)
			}
			waits := s.VolumeAttachments[slices.IndexFunc(s.VolumeAttachments, refusedNow)]
			s.Followed = f(s, waits.Name)
			r := diagnose.Diagnose(s, diagnose.Options{Reconcile: c.Settings})
			i := slices.IndexFunc(r.Findings, func(f finding.Finding) bool { return f.Code == code })
			if i < 0 {
				t.Fatalf("%s: no %s", name, code)
			}
			return r.Findings[i]
		}
		ago := func(s *snapshot.Snapshot, minutes int) time.Time {
			return s.TakenAt.Add(-time.Duration(minutes) * time.Minute)
		}
		certain := func(f finding.Finding) bool { return f.Confidence != finding.Suspected && f.Follow == 0 }
		if f := look(func(*snapshot.Snapshot, string) *snapshot.Followed { return nil }); certain(f) || f.Settles == nil || f.Follow == 0 {
			t.Errorf("%s: after one look it is certain: %+v", name, f)
		}
		if f := look(func(s *snapshot.Snapshot, va string) *snapshot.Followed {
			return &snapshot.Followed{Since: ago(s, 11), Asked: map[string]time.Time{va: ago(s, 5)}}
		}); !certain(f) || f.Settles != nil {
			t.Errorf("%s: refused twice since it is followed, it is only suspected: %+v", name, f)
		}
		for _, gone := range []int{5, 1} {
			if f := look(func(s *snapshot.Snapshot, va string) *snapshot.Followed {
				last := s.VolumeAttachment(va).DeepCopy()
				last.Name, last.Spec.NodeName = "another", "elsewhere"
				return &snapshot.Followed{Since: ago(s, 11), Asked: map[string]time.Time{va: ago(s, 5)}, Gone: []snapshot.GoneAttachment{{Last: last, At: ago(s, gone)}}}
			}); certain(f) {
				t.Errorf("%s: another went %d min ago, the attempt may have begun 5 min ago, and it is certain", name, gone)
			}
		}
	}
}

func refusedNow(va *storagev1.VolumeAttachment) bool {
	return va.Status.AttachError != nil && !va.Status.Attached
}

// TestLooksGoOnPastAReport: a kubelet reports its node's status every five minutes, even
// unchanged. Looks that have found for a minute that it has a volume which counts as detached
// go on across that report.
func TestLooksGoOnPastAReport(t *testing.T) {
	for name, severity := range map[string]finding.Severity{"vd116-attached-elsewhere": finding.Warning, "vd116-status-fresh": finding.Info} {
		c, err := testcases.Load(name)
		if err != nil {
			t.Fatal(err)
		}
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		report := diagnose.Diagnose(s, diagnose.Options{Reconcile: c.Settings})
		since := report.FoundSince(nil)
		for fingerprint, first := range since {
			since[fingerprint] = metav1.NewTime(first.Add(-time.Minute))
		}
		again := report.FoundAgain(since)
		if len(report.Findings) != 1 || report.Findings[0].Severity != severity || report.Findings[0].Confidence != finding.Suspected {
			t.Errorf("%s, at one look: %+v", name, report.Findings)
		}
		if len(again.Findings) != 1 || again.Findings[0].Severity != finding.Error || again.Findings[0].Confidence != "" {
			t.Errorf("%s, a minute later: %+v", name, again.Findings)
		}
	}
}
