package diagnose_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// manyWaiting is a cluster in which n pods wait in vain, each for a volume that the driver
// refuses with a message of its own.
func manyWaiting(n int) *snapshot.Snapshot {
	w := testworld.New()
	o := w.Objects
	o.Pods, o.Volumes, o.Claims, o.VolumeAttachments = nil, nil, nil, nil
	for i := range n {
		handle, node := fmt.Sprintf("vol-%d", i), testworld.NewNode(fmt.Sprintf("node-%d", i/20))
		if i%20 == 0 {
			o.Nodes, o.CSINodes = append(o.Nodes, node), append(o.CSINodes, testworld.NewCSINode(node.Name))
		}
		last := o.Nodes[len(o.Nodes)-1]
		last.Status.VolumesInUse = append(last.Status.VolumesInUse, corev1.UniqueVolumeName("kubernetes.io/csi/"+testworld.Driver+"^"+handle))
		pv, claim := w.Volumes[0].DeepCopy(), w.Claims[0].DeepCopy()
		pv.Name, pv.UID = "pv-"+handle, ""
		pv.Spec.CSI.VolumeHandle = handle
		claim.Name, claim.UID, claim.Spec.VolumeName = "claim-"+handle, pv.UID, pv.Name
		pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID = claim.Name, claim.UID
		pod := testworld.New().Pending(30).Pod
		pod.Name, pod.UID, pod.Spec.NodeName = fmt.Sprintf("app-%d", i), types.UID(fmt.Sprint(i)), last.Name
		pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = claim.Name
		va := testworld.NewAttachment(last.Name)
		va.Spec.Source.PersistentVolumeName = &pv.Name
		va.Name = reconcile.VolumeAttachmentName(handle, testworld.Driver, types.NodeName(last.Name))
		va.CreationTimestamp = testworld.MinutesAgo(30)
		va.Status = storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{Time: testworld.MinutesAgo(1), Message: fmt.Sprintf("gate %d is shut", i)}}
		o.Pods, o.Volumes, o.Claims, o.VolumeAttachments = append(o.Pods, pod), append(o.Volumes, pv), append(o.Claims, claim), append(o.VolumeAttachments, va)
	}
	return snapshot.New(testworld.Now, snapshot.Source{ServerVersion: "v1.36.3"}, o, nil)
}

// BenchmarkManyPodsWait shows that the time for one pod does not grow with their number: ns/pod
// is about the same for both sizes.
func BenchmarkManyPodsWait(b *testing.B) {
	for _, n := range []int{500, 5000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := manyWaiting(n)
			if r := diagnose.Diagnose(s, diagnose.Options{}); len(r.Waiting) != n || len(r.Findings) == 0 {
				b.Fatalf("%d of %d pods wait, %d findings", len(r.Waiting), n, len(r.Findings))
			}
			for b.Loop() {
				diagnose.Diagnose(s, diagnose.Options{})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/pod")
		})
	}
}
