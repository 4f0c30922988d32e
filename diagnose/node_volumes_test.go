package diagnose_test

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// manyVolumes is a node with n volumes in use and n other volumes attached.
func manyVolumes(n int) *snapshot.Snapshot {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	old := metav1.NewTime(now.Add(-24 * time.Hour))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", CreationTimestamp: old}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: old, LastHeartbeatTime: old}}
	for i := range n {
		node.Status.VolumesInUse = append(node.Status.VolumesInUse, corev1.UniqueVolumeName(fmt.Sprintf("kubernetes.io/csi/d^in-%d", i)))
		node.Status.VolumesAttached = append(node.Status.VolumesAttached, corev1.AttachedVolume{Name: corev1.UniqueVolumeName(fmt.Sprintf("kubernetes.io/csi/d^at-%d", i))})
	}
	return snapshot.New(now, snapshot.Source{ServerVersion: "v1.36.3"}, snapshot.Objects{Nodes: []*corev1.Node{node}}, nil)
}

// BenchmarkManyVolumesOfANode shows that the time for one volume does not grow with the number
// of volumes: ns/volume is about the same for all sizes.
func BenchmarkManyVolumesOfANode(b *testing.B) {
	for _, n := range []int{2000, 8000, 32000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := manyVolumes(n)
			for b.Loop() {
				diagnose.Diagnose(s, diagnose.Options{})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/volume")
		})
	}
}
