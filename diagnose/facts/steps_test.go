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
		"; save its manifest: nobody else makes it again":           {bare},
		"; save their manifests: nobody else makes them again":      {bare, owned},
		"; save their manifests: nobody else makes 1 of them again": {bare, made},
	} {
		if got := goneForGood(pods); got != want {
			t.Errorf("%q, not %q", got, want)
		}
	}
	if !ControlledBy(made, "ReplicaSet") || ControlledBy(made, "StatefulSet") || ControlledBy(owned, "Backup") || ControlledBy(bare, "") {
		t.Error("who controls a pod is what its controller reference says")
	}
}
