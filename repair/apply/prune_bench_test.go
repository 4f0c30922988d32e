package apply

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// phantoms: volumesAttached of n1 lists so many volumes that no other object mentions.
func phantoms(t testing.TB, volumes int) *memory {
	m := idle(t)
	node := m.node("n1")
	for i := range volumes {
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: uniqueName(fmt.Sprintf("phantom-%d", i))})
	}
	return m
}

// BenchmarkProposePrunes looks at many entries of one node, and proposes a repair for each.
func BenchmarkProposePrunes(b *testing.B) {
	for _, volumes := range []int{250, 1000, 4000} {
		b.Run(fmt.Sprint(volumes), func(b *testing.B) {
			m := phantoms(b, volumes)
			b.ReportAllocs()
			for b.Loop() {
				_, repairs := m.view()
				if got := len(repairs); got != volumes+1 {
					b.Fatal(got)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*volumes), "ns/volume")
		})
	}
}
