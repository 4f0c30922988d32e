package repair

import (
	"bytes"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// asked is the metrics of a leading kube-controller-manager with these counts of volumes.
func asked(s *snapshot.Snapshot, actual, desired int) *snapshot.ControllerManager {
	first, last := s.TakenAt, s.TakenAt.Add(facts.CountsApart)
	return &snapshot.ControllerManager{Pod: "kube-controller-manager-cp1", Identity: holderOf(s), First: &first, Last: &last,
		Held: []snapshot.Held{{Plugin: "kubernetes.io/csi:ebs.csi.aws.com", Actual: &actual, Desired: &desired}}}
}

func holderOf(s *snapshot.Snapshot) string {
	if lease := s.Lease(metav1.NamespaceSystem, reconcile.ControllerManager); lease != nil && lease.Spec.HolderIdentity != nil {
		return *lease.Spec.HolderIdentity
	}
	return ""
}

// TestCountsOnlyAdd: whatever kube-controller-manager's metrics say, every finding of the
// corpus and its repair stay as they are. A repair of a finding that only they show is
// refused.
func TestCountsOnlyAdd(t *testing.T) {
	long.Test(t)
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	for _, c := range cases {
		without, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		options := diagnose.Options{Reconcile: c.Settings}
		before := Look(without, options, Consent{})
		proposed := propose(before)
		for range 3 {
			with := snapshot.New(without.TakenAt, without.Source, without.Objects, slices.Clone(without.Gaps))
			with.Backends = without.Backends
			with.Manager = asked(with, r.IntN(4), r.IntN(4))
			after := Look(with, options, Consent{})
			again := propose(after)
			known := map[string]bool{}
			for _, f := range before.Report.Findings {
				known[f.Fingerprint] = true
				i := slices.IndexFunc(after.Report.Findings, func(g finding.Finding) bool { return g.Fingerprint == f.Fingerprint })
				if i < 0 || !reflect.DeepEqual(f, after.Report.Findings[i]) {
					t.Errorf("%s: the numbers change %s: %s", c.Name, f.Code, f.Message)
				}
			}
			for _, g := range after.Report.Findings {
				if !known[g.Fingerprint] && (!g.ControllerAlone || g.Code != "VD101" || g.Repair == nil || g.Repair.BlockedBy == "" || len(g.Repair.Commands) > 0) {
					t.Errorf("%s: the numbers make %+v", c.Name, g)
				}
			}
			if len(again) != len(proposed) {
				t.Errorf("%s: %d repairs, and with numbers %d", c.Name, len(proposed), len(again))
			}
		}
	}
}

// TestUncountedAttachment: an attachment that the controller does not count is certain after
// seconds, unless one of the numbers, the lease or the objects leaves a doubt.
func TestUncountedAttachment(t *testing.T) {
	base, err := os.ReadFile("../testdata/bases/running.yaml")
	if err != nil {
		t.Fatal(err)
	}
	type world struct {
		*snapshot.Snapshot
		restored *storagev1.VolumeAttachment
		*snapshot.ControllerManager
	}
	look := func(edit func(*world)) []finding.Finding {
		t.Helper()
		s, _, err := snapshot.Read("running.yaml", bytes.NewReader(base), snapshot.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		pv := s.Volumes[0].DeepCopy()
		pv.Name, pv.UID, pv.Spec.ClaimRef, pv.Spec.CSI.VolumeHandle = "pv-kept", "pv-kept", nil, "vol-kept"
		w := &world{s, s.VolumeAttachments[0].DeepCopy(), asked(s, 1, 1)}
		w.restored.Name, w.restored.UID = reconcile.VolumeAttachmentName("vol-kept", pv.Spec.CSI.Driver, "n1"), "restored"
		w.restored.Spec.Source.PersistentVolumeName, w.restored.CreationTimestamp = &pv.Name, metav1.NewTime(s.TakenAt.Add(-10*time.Second))
		s.Volumes, s.VolumeAttachments = append(s.Volumes, pv), append(s.VolumeAttachments, w.restored)
		edit(w)
		with := snapshot.New(s.TakenAt, s.Source, s.Objects, s.Gaps)
		with.Manager = w.ControllerManager
		view := Look(with, diagnose.Options{}, Consent{})
		for _, r := range propose(view) {
			if r.Finding.VolumeAttachment == w.restored.Name {
				t.Errorf("%s rests on numbers", r.Summary)
			}
		}
		return slices.DeleteFunc(view.Report.Findings, func(f finding.Finding) bool { return f.VolumeAttachment != w.restored.Name })
	}
	listWritten := func(w *world) {
		w.Nodes[0].ManagedFields[0].Time = new(metav1.NewTime(w.TakenAt.Add(-20 * time.Second)))
	}
	for name, edit := range map[string]func(*world){"as they are": func(*world) {}, "volumesAttached was written just now": listWritten} {
		if found := look(edit); len(found) != 1 || found[0].Code != "VD101" || found[0].Confidence != "" || found[0].Repair.BlockedBy == "" {
			t.Fatalf("%s: %+v", name, found)
		}
	}
	two, zero := 2, 0
	for name, edit := range map[string]func(*world){
		"it counts one more":              func(w *world) { w.Held[0].Actual = &two },
		"it takes one off the list":       func(w *world) { listWritten(w); w.Held[0].Actual = &two },
		"it counts one less":              func(w *world) { w.Held[0].Actual = &zero },
		"it wants one more":               func(w *world) { w.Held[0].Desired = &two },
		"the number is missing":           func(w *world) { w.Held[0].Actual = nil },
		"what it wants is missing":        func(w *world) { w.Held[0].Desired = nil },
		"another driver":                  func(w *world) { w.Held[0].Plugin = "kubernetes.io/csi:other" },
		"another replica":                 func(w *world) { w.Identity = "cp2_x" },
		"the readings are too close":      func(w *world) { *w.Last = w.Last.Add(-time.Second) },
		"the readings are of another day": func(w *world) { *w.First = w.First.Add(-24 * time.Hour) },
		"it was not counted":              func(w *world) { w.First, w.Last, w.Held = nil, nil, nil },
		"a list is missing": func(w *world) {
			w.Gaps = []snapshot.Gap{{Kind: snapshot.StorageClasses, Reason: snapshot.ReasonForbidden}}
		},
		"no lease":             func(w *world) { w.Leases = nil },
		"it is of this second": func(w *world) { w.restored.CreationTimestamp = metav1.NewTime(w.TakenAt) },
		"it is older than the controller": func(w *world) {
			acquired := metav1.NewMicroTime(w.TakenAt.Add(-20 * time.Second))
			w.Leases[0].Spec.AcquireTime = &acquired
		},
		"the pod in use has just begun": func(w *world) {
			w.Pods[0].Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(w.TakenAt.Add(-5 * time.Second))
		},
		"the pod in use is ending":     func(w *world) { w.Pods[0].DeletionTimestamp = &metav1.Time{Time: w.TakenAt} },
		"the volume is being detached": func(w *world) { w.VolumeAttachments[0].DeletionTimestamp = &metav1.Time{Time: w.TakenAt} },
		"the volume is not in use":     func(w *world) { w.Nodes[0].Status.VolumesInUse = nil },
		"it is not reported":           func(w *world) { w.Nodes[0].Status.VolumesAttached = nil },
		"somebody else wrote the report": func(w *world) {
			w.Nodes[0].ManagedFields[0].Manager = "kubectl-edit"
		},
		"its node is not ready": func(w *world) { w.Nodes[0].Status.Conditions[0].Status = corev1.ConditionFalse },
		"the pod came after the controller took the volume over": func(w *world) {
			acquired := metav1.NewMicroTime(w.TakenAt.Add(-time.Minute))
			w.Leases[0].Spec.AcquireTime = &acquired
			w.Pods[0].Status.Conditions = nil
			w.Pods[0].CreationTimestamp = metav1.NewTime(w.TakenAt.Add(-50 * time.Second))
			w.VolumeAttachments[0].CreationTimestamp = metav1.NewTime(w.TakenAt.Add(-time.Hour))
		},
	} {
		if found := look(edit); len(found) > 0 {
			t.Errorf("%s: %s", name, found[0].Message)
		}
	}
}
