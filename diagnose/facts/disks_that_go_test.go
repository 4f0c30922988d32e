package facts_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
)

// TestDisksThatGo: the disk goes with the last pod that names its claim, where the claim is
// being deleted or the pod owns it.
func TestDisksThatGo(t *testing.T) {
	deleted := func(w *testworld.World) {
		at := testworld.MinutesAgo(5)
		w.Claims[0].DeletionTimestamp = &at
		w.Volumes[0].Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
	}
	for name, c := range map[string]struct {
		change func(*testworld.World)
		goes   bool
	}{
		"a claim that stays":  {func(w *testworld.World) { deleted(w); w.Claims[0].DeletionTimestamp = nil }, false},
		"one that is deleted": {deleted, true},
		"... with Retain": {func(w *testworld.World) {
			deleted(w)
			w.Volumes[0].Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimRetain
		}, false},
		"... and another user": {func(w *testworld.World) { deleted(w); w.Pods = append(w.Pods, testworld.NewPod("other", "n2")) }, false},
		"... that is nowhere":  {func(w *testworld.World) { deleted(w); w.Pods = append(w.Pods, testworld.NewPod("other", "")) }, true},
		"one that its pod owns": {func(w *testworld.World) {
			deleted(w)
			w.Claims[0].DeletionTimestamp = nil
			w.Claims[0].OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: w.Pod.Name, UID: w.Pod.UID}}
		}, true},
	} {
		w := testworld.With(testworld.New(), c.change)
		v := viewOf(w.Snapshot())
		if disks := v.DisksThatGo([]*corev1.Pod{w.Pod}); (len(disks) == 1) != c.goes {
			t.Errorf("%s: %d disks go", name, len(disks))
		}
	}
}
