package snapshot

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// TestNames: as a map in which later objects replace earlier ones.
func TestNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"", "a", "b", "ab", "c", "shop", "shop/a"})
		var list []*corev1.Pod
		byBoth, byOne := map[types.NamespacedName]*corev1.Pod{}, map[string]*corev1.Pod{}
		for range rapid.IntRange(0, 40).Draw(t, "objects") {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: name.Draw(t, "namespace"), Name: name.Draw(t, "name")}}
			list = append(list, pod)
			byBoth[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}], byOne[pod.Name] = pod, pod
		}
		both, one := byNamespacedName(list), byName(list)
		for range 20 {
			key := types.NamespacedName{Namespace: name.Draw(t, "namespace"), Name: name.Draw(t, "name")}
			if got := named(both, key); got != byBoth[key] {
				t.Fatalf("%v: %v, not %v", key, got, byBoth[key])
			}
			if got := named(one, key.Name); got != byOne[key.Name] {
				t.Fatalf("%s: %v, not %v", key.Name, got, byOne[key.Name])
			}
		}
	})
}
