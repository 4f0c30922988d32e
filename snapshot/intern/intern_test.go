package intern

import (
	"fmt"
	"testing"
	"unsafe"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/randfill"
)

// TestShareKeepsValues: an object says the same after it was shared, whatever was shared before.
func TestShareKeepsValues(t *testing.T) {
	filler := randfill.NewWithSeed(1).NilChance(0.4).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewQuantity(c.Int63n(9), resource.BinarySI)
		},
		func(text *string, c randfill.Continue) { *text = []string{"", "a", "b", "ab"}[c.Intn(4)] },
		func(time *metav1.Time, c randfill.Continue) { *time = metav1.Unix(c.Int63n(3), 0) },
	)
	s := New()
	for range 1000 {
		for _, object := range []runtime.Object{
			&corev1.Pod{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &corev1.Node{},
			&storagev1.VolumeAttachment{}, &storagev1.CSINode{}, &coordinationv1.Lease{},
		} {
			filler.Fill(object)
			before := object.DeepCopyObject()
			s.Share(object)
			if !apiequality.Semantic.DeepEqual(before, object) {
				t.Fatalf("it was\n%v\nand is\n%v", before, object)
			}
		}
	}
}

// TestShareShares: pods of one controller have their equal parts in the same memory, and a part
// that differs in one text has memory of its own.
func TestShareShares(t *testing.T) {
	pod := func(image string) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: fmt.Sprint("node-", 1), Containers: []corev1.Container{{Name: "web", Image: image}}},
		}
	}
	s, first, same, other := New(), pod("nginx:1"), pod("nginx:1"), pod("nginx:2")
	for _, p := range []*corev1.Pod{first, same, other} {
		s.Share(p)
	}
	if unsafe.StringData(first.Spec.NodeName) != unsafe.StringData(same.Spec.NodeName) {
		t.Error("the name of the node is twice in memory")
	}
	if &first.Spec.Containers[0] != &same.Spec.Containers[0] {
		t.Error("equal containers are twice in memory")
	}
	if &first.Spec.Containers[0] == &other.Spec.Containers[0] {
		t.Error("containers of different images are shared")
	}
	first.Labels["shared"] = "yes"
	if same.Labels["shared"] != "yes" {
		t.Error("equal labels are twice in memory")
	}
}

// TestTablesAreBounded: values that no two objects have do not pile up.
func TestTablesAreBounded(t *testing.T) {
	s := New()
	for i := range mostShared + 10 {
		text := fmt.Sprint(i)
		s.Share(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"id": text}, Namespace: text}})
	}
	if len(s.texts) > mostShared || len(s.maps) > mostShared {
		t.Errorf("%d texts and %d maps are kept, want at most %d", len(s.texts), len(s.maps), mostShared)
	}
}
