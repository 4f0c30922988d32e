package apply

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// unread makes the lists of these kinds fail in the looks for which when is true.
func unread(when func(n int) bool, kinds ...snapshot.Kind) func(int) []snapshot.Kind {
	return func(n int) []snapshot.Kind {
		if when(n) {
			return kinds
		}
		return nil
	}
}

func only(number int) func(int) bool { return func(n int) bool { return n == number } }

func from(number int) func(int) bool { return func(n int) bool { return n >= number } }

// secondUser is a pod that runs on n2 with vol-1.
func (m *memory) secondUser() *corev1.Pod {
	other := m.pod().DeepCopy()
	other.Name, other.UID, other.Spec.NodeName = "web-1", "uid-web-1", "n2"
	other.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{running}}
	return other
}

// TestNoSecondWriteAfterAnIncompleteLook: between the two writes of
// unpublish-orphan a pod has come to the node, and the look that would show it
// fails. The deletion would take the volume from under the pod.
func TestNoSecondWriteAfterAnIncompleteLook(t *testing.T) {
	for name, hidden := range map[string][]snapshot.Kind{
		"pods and nodes": {snapshot.Pods, snapshot.Nodes}, "pods": {snapshot.Pods}, "claims": {snapshot.Claims},
		"volumes": {snapshot.Volumes}, "pods and claims": {snapshot.Pods, snapshot.Claims},
	} {
		t.Run(name, func(t *testing.T) {
			m := orphan(t)
			r, other := m.only(), m.secondUser()
			m.looks = 0
			m.looking = func(n int) error {
				if n == 2 {
					m.objects.Pods = append(m.objects.Pods, other)
				}
				return nil
			}
			m.failing = unread(only(2), hidden...)
			a, sink := m.applier()
			results, err := a.Apply(t.Context(), []repair.Repair{r})
			if err != nil || len(m.stored) != 1 || results[0].Outcome != Unverified || !strings.Contains(results[0].Detail, "web-1") {
				t.Errorf("%d writes, %+v, %v", len(m.stored), results, err)
			}
			if ended := sink.entries(); ended[len(ended)-1].Outcome != Unverified {
				t.Errorf("%+v", ended)
			}
		})
	}
}

// TestSecondWriteAsksEverything: whatever makes another deletion unsafe also prevents the
// second write of unpublish-orphan.
func TestSecondWriteAsksEverything(t *testing.T) {
	made := reconcile.VolumeAttachmentName("vol-1", driver, "n2")
	for guard, change := range map[string]func(m *memory){
		"not-reported": func(m *memory) {
			m.node("n2").Status.VolumesAttached = []corev1.AttachedVolume{{Name: uniqueName("vol-1")}}
		},
		"nobody-elses": func(m *memory) { m.named(made).Labels = map[string]string{"app.kubernetes.io/managed-by": "x"} },
		"no-live-pod": func(m *memory) { // only its claim leads to the volume
			m.objects.Pods = append(m.objects.Pods, m.secondUser())
			m.volume("pv1").Spec.ClaimRef.UID = "another"
		},
		"only-one-there":         func(m *memory) { m.addAttachment("n2", "pv1", "by-hand").Status.Attached = false },
		"not-attached-elsewhere": func(m *memory) { m.attachment().Status = storagev1.VolumeAttachmentStatus{Attached: true} },
		"same-node-id":           func(m *memory) { m.named(made).Annotations[reconcile.NodeIDAnnotation] = "i-n3" },
		"disk-stays": func(m *memory) {
			m.volume("pv1").Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			m.volume("pv1").Status.Phase = corev1.VolumeReleased
		},
		"node-lives": func(m *memory) { m.node("n2").Status.Conditions[0].Status = corev1.ConditionUnknown },
		"not-used":   func(m *memory) { m.node("n2").Status.VolumesInUse = []corev1.UniqueVolumeName{uniqueName("vol-1")} },
		// not-used refuses first
		"not-wanted":         func(m *memory) { m.objects.Pods = append(m.objects.Pods, m.secondUser()) },
		repair.GuardComplete: func(m *memory) { m.gaps = gap(snapshot.Leases, "") },
	} {
		t.Run(guard, func(t *testing.T) {
			m := orphan(t)
			r := m.only()
			m.looks = 0
			m.looking = func(n int) error {
				if n == 2 {
					change(m)
				}
				return nil
			}
			a, _ := m.applier()
			results, err := a.Apply(t.Context(), []repair.Repair{r})
			if err != nil || len(m.stored) != 1 || results[0].Outcome != Unverified || !strings.Contains(results[0].Detail, "was not made") {
				t.Errorf("%d writes, %+v, %v", len(m.stored), results, err)
			}
		})
	}
}

// TestNoThirdRequestAfterALostAnswer: where nobody knows whether the second write was made,
// no further request follows it.
func TestNoThirdRequestAfterALostAnswer(t *testing.T) {
	m := orphan(t)
	r := m.only()
	deletions := 0
	m.before = func(op repair.Operation, dryRun bool) error {
		if op.Verb == repair.VerbDelete && !dryRun {
			if deletions++; deletions > 1 {
				t.Fatal("another request follows one whose end nobody knows")
			}
			return repair.ErrUnknownOutcome
		}
		return nil
	}
	a, sink := m.applier()
	results, err := a.Apply(t.Context(), []repair.Repair{r})
	if err != nil || deletions != 1 || results[0].Outcome != Unverified {
		t.Errorf("%d deletions, %+v, %v", deletions, results, err)
	}
	if len(standingIn(sink.entries())) == 0 {
		t.Error("no write may stand")
	}
	for _, e := range standingIn(sink.entries()) {
		if !e.Ended {
			t.Errorf("write %d has no outcome", e.Write)
		}
	}
	for _, e := range sink.entries() {
		if e.Type == Ended && e.Outcome != Unverified {
			t.Errorf("%+v", e)
		}
	}
}

// TestLostAnswerAndFailingList: a patch whose answer was lost was made, and the
// list that would show it fails.
func TestLostAnswerAndFailingList(t *testing.T) {
	for name, test := range map[string]struct {
		when    func(int) bool
		outcome Outcome
	}{"once": {only(2), Repaired}, "for good": {from(2), Unverified}} {
		t.Run(name, func(t *testing.T) {
			m := lostEntry(t)
			r := m.only()
			m.looks = 0
			m.failing = unread(test.when, snapshot.Nodes)
			m.after = times(1, false, func() error { return repair.ErrUnknownOutcome })
			a, sink := m.applier()
			results, err := a.Apply(t.Context(), []repair.Repair{r})
			if err != nil || len(m.stored) != 1 || results[0].Outcome != test.outcome {
				t.Errorf("%d writes, %+v, %v", len(m.stored), results, err)
			}
			for _, e := range sink.entries() {
				if e.Outcome == NotWritten {
					t.Errorf("it was written: %+v", e)
				}
			}
			m.failing, m.after = nil, nil
			m.unused("vol-1")
			if undone := m.undo(a, sink); len(undone) != 1 || undone[0].Outcome != Undone {
				t.Errorf("undo: %+v", undone)
			}
		})
	}
}

// TestDeletionThatNeverArrived: a list that fails is no sign that the object is
// gone.
func TestDeletionThatNeverArrived(t *testing.T) {
	m := dangling(t)
	r := m.only()
	m.looks = 0
	m.failing = unread(from(2), snapshot.VolumeAttachments)
	m.before = times(1, false, func() error { return repair.ErrUnknownOutcome })
	a, sink := m.applier()
	results, err := a.Apply(t.Context(), []repair.Repair{r})
	if err != nil || len(m.stored) != 0 || results[0].Outcome != Unverified || strings.Contains(results[0].Detail, "shows the write") {
		t.Errorf("%d writes, %+v, %v", len(m.stored), results, err)
	}
	if last := sink.entries()[1]; last.Outcome != Unverified {
		t.Errorf("%+v", last)
	}
}

// TestOwnAttachmentIsNotForgotten: the attachments cannot be read right after
// unpublish-orphan has created one.
func TestOwnAttachmentIsNotForgotten(t *testing.T) {
	m := orphan(t)
	m.detachesOrphan()
	r := m.only()
	m.looks = 0
	m.failing = unread(only(2), snapshot.VolumeAttachments)
	a, _ := m.applier()
	results, err := a.Apply(t.Context(), []repair.Repair{r})
	if err != nil || results[0].Outcome != Repaired || len(m.stored) != 2 {
		t.Errorf("%d writes, %+v, %v", len(m.stored), results, err)
	}
}

// detachesOrphan is an attacher that has the driver detach the attachment that is being
// deleted on n2, and then attaches the volume where it is wanted.
func (m *memory) detachesOrphan() {
	made := reconcile.VolumeAttachmentName("vol-1", driver, "n2")
	m.looking = func(int) error {
		there := func(va *storagev1.VolumeAttachment) bool { return va.Name == made && va.DeletionTimestamp != nil }
		if slices.ContainsFunc(m.objects.VolumeAttachments, there) {
			m.objects.VolumeAttachments = slices.DeleteFunc(slices.Clone(m.objects.VolumeAttachments), there)
			m.attachment().Status = storagev1.VolumeAttachmentStatus{Attached: true}
		}
		return nil
	}
}

// TestFindingThatNobodyLookedFor: a check that could not run has found nothing, which does
// not show that the repair has helped.
func TestFindingThatNobodyLookedFor(t *testing.T) {
	m := deviceMissing(t)
	r := m.only()
	m.looks = 0
	m.failing = unread(from(2), snapshot.Events)
	m.looking = func(n int) error {
		m.attachment().Status.Attached = true // the attacher publishes the volume once more
		return nil
	}
	a, _ := m.applier()
	results, err := a.Apply(t.Context(), []repair.Repair{r})
	if err != nil || results[0].Outcome != Unverified || !strings.Contains(results[0].Detail, "the events were not all read") {
		t.Errorf("%+v, %v", results, err)
	}
	m = deviceMissing(t)
	r = m.only()
	m.looks = 0
	m.failing = unread(from(1), snapshot.Events)
	a, _ = m.applier()
	results, err = a.Apply(t.Context(), []repair.Repair{r})
	if err != nil || results[0].Outcome != Skipped || results[0].Guard != repair.GuardComplete || !results[0].LeftUndone() {
		t.Errorf("%+v, %v", results, err)
	}
}
