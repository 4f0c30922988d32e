package facts

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestGoneForGood: who deletes a pod that nobody makes again is told to save its manifest first.
func TestGoneForGood(t *testing.T) {
	yes := true
	bare := &corev1.Pod{}
	made := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Controller: &yes}}}}
	owned := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "Backup"}}}} // its owner controls nothing
	for want, pods := range map[string][]*corev1.Pod{
		"": {made},
		"; nobody makes it again: save its manifest, and create it from that":                    {bare},
		"; nobody makes them again: save their manifests, and create them from those":            {bare, owned},
		"; nobody makes 1 of them again: save the manifests of those, and create them from that": {bare, made},
	} {
		if got := goneForGood(pods); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	if !ControlledBy(made, "ReplicaSet") || ControlledBy(made, "StatefulSet") || ControlledBy(owned, "Backup") || ControlledBy(bare, "") {
		t.Error("who controls a pod is what its controller reference says")
	}
}
