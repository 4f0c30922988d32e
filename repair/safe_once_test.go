package repair

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// eachLook calls f for each case of the corpus with the view of it.
func eachLook(t *testing.T, f func(c *testcases.Case, view *View)) {
	t.Helper()
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		f(c, Look(s, diagnose.Options{Reconcile: c.Settings}, Consent{}))
	}
}

// TestSafeOnce: over the corpus each repair that the user's consent alone does not allow says
// what would make it safe.
func TestSafeOnce(t *testing.T) {
	refused := 0
	eachLook(t, func(c *testcases.Case, view *View) {
		propose(view)
		for _, f := range view.Report.Findings {
			if f.Repair == nil || f.Repair.BlockedBy == "" || len(f.Repair.Commands) > 0 {
				continue
			}
			refused++
			if f.Repair.SafeOnce == "" {
				t.Errorf("%s: %s is refused (%s), and nothing says what would make it safe", c.Name, f.Code, f.Repair.BlockedBy)
			}
		}
	})
	if refused < 40 {
		t.Errorf("only %d repairs are refused", refused)
	}
}

// TestDetachThere: wherever the objects show a user of the disk, the advice to detach it at
// the storage system says to end that use first.
func TestDetachThere(t *testing.T) {
	const detach = "detach the volume at the storage system"
	advised, free, used := 0, 0, 0
	eachLook(t, func(c *testcases.Case, view *View) {
		propose(view)
		for _, f := range view.Report.Findings {
			if f.Repair == nil || !strings.Contains(f.Repair.SafeOnce, detach) {
				continue
			}
			advised++
			if err := view.Facts.StillUsed(view.Snapshot.VolumeAttachment(f.VolumeAttachment)); err != nil && !strings.HasPrefix(strings.ReplaceAll(f.Repair.SafeOnce, " ("+step.ForGood+")", ""), step.WithoutMarks(err.Error())) {
				t.Errorf("%s: %s, although: %s", c.Name, f.Repair.SafeOnce, err)
			}
		}
		for _, va := range view.Snapshot.VolumeAttachments {
			var no *Refusal
			errors.As(detachThere(view, guardStorageLetGo, va, "it is attached", ""), &no)
			if err := view.Facts.StillUsed(va); err == nil {
				free++
				if no.Safe() != detach {
					t.Errorf("%s: %s", c.Name, no.Safe())
				}
			} else {
				used++
				if no.Safe() != step.WithoutMarks(err.Error())+"; only then "+detach {
					t.Errorf("%s: %s", c.Name, no.SafeOnce)
				}
			}
			for _, pod := range view.World.LivePods(reconcile.VolumeNode{Volume: nameOfVolume(view, va), Node: types.NodeName(va.Spec.NodeName)}) {
				if !strings.Contains(no.SafeOnce, "save the data of pod") {
					t.Errorf("%s: pod %s has it, and: %s", c.Name, pod.Name, no.SafeOnce)
				}
			}
		}
	})
	if advised < 5 || free < 20 || used < 100 {
		t.Errorf("advised %d times; of all VolumeAttachments %d are free, and %d used", advised, free, used)
	}
}

func nameOfVolume(v *View, va *storagev1.VolumeAttachment) corev1.UniqueVolumeName {
	name, err := v.World.AttachmentVolume(va)
	if err != nil {
		return ""
	}
	return name
}
