package diagnose_test

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestCost: twice as many objects about one volume, claim or pod take about twice the memory,
// not four times as much.
func TestCost(t *testing.T) {
	c, err := testcases.Load("vd301-clobbered")
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	base := s.VolumeAttachments[0]
	named := func(i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i), UID: types.UID(fmt.Sprintf("many-%d", i)), CreationTimestamp: base.CreationTimestamp}
	}
	for name, add := range map[string]func(*snapshot.Objects, int){
		"attachments of one volume, on nodes that are gone": func(o *snapshot.Objects, i int) {
			va := base.DeepCopy()
			va.ObjectMeta = named(i)
			va.Spec.NodeName = fmt.Sprintf("gone-%d", i)
			o.VolumeAttachments = append(o.VolumeAttachments, va)
		},
		"attachments of one volume, on nodes": func(o *snapshot.Objects, i int) {
			va := base.DeepCopy()
			va.ObjectMeta = named(i)
			va.Spec.NodeName = fmt.Sprintf("many-%d", i)
			node := &corev1.Node{ObjectMeta: named(i)}
			csi := &storagev1.CSINode{ObjectMeta: named(i), Spec: s.CSINodes[0].Spec}
			o.VolumeAttachments, o.Nodes, o.CSINodes = append(o.VolumeAttachments, va), append(o.Nodes, node), append(o.CSINodes, csi)
		},
		"pods of one claim": func(o *snapshot.Objects, i int) {
			pod := s.Pods[0].DeepCopy()
			meta := named(i)
			pod.Name, pod.UID = meta.Name, meta.UID
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
			o.Pods = append(o.Pods, pod)
		},
		"pods with one volume, on nodes": func(o *snapshot.Objects, i int) {
			meta, node, pod := named(i), s.Nodes[0].DeepCopy(), s.Pods[0].DeepCopy()
			node.Name, node.UID = meta.Name, meta.UID
			pod.Name, pod.UID, pod.Spec.NodeName = meta.Name, meta.UID, meta.Name
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
			o.Nodes, o.Pods = append(o.Nodes, node), append(o.Pods, pod)
		},
		"claims of one disk": func(o *snapshot.Objects, i int) {
			meta, pv, claim, pod := named(i), s.Volumes[0].DeepCopy(), s.Claims[0].DeepCopy(), s.Pods[0].DeepCopy()
			pv.Name, pv.UID, claim.Name, claim.UID, pod.Name, pod.UID = meta.Name, meta.UID, meta.Name, meta.UID, meta.Name, meta.UID
			pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID, claim.Spec.VolumeName = meta.Name, meta.UID, meta.Name
			for j := range pod.Spec.Volumes {
				if pod.Spec.Volumes[j].PersistentVolumeClaim != nil {
					pod.Spec.Volumes[j].PersistentVolumeClaim.ClaimName = meta.Name
				}
			}
			o.Volumes, o.Claims, o.Pods = append(o.Volumes, pv), append(o.Claims, claim), append(o.Pods, pod)
		},
		"events of one pod": func(o *snapshot.Objects, i int) {
			e := &corev1.Event{ObjectMeta: named(i), Reason: "FailedMount", Message: fmt.Sprintf(`MountVolume.SetUp failed for volume "pv-data" : rpc error: %d`, i), LastTimestamp: base.CreationTimestamp}
			e.Namespace = "default"
			e.InvolvedObject = corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: s.Pods[0].Name, UID: s.Pods[0].UID}
			o.Events = append(o.Events, e)
		},
	} {
		bytes := func(n int) float64 {
			o := testcases.Copy(s.Objects)
			for i := range n {
				add(&o, i)
			}
			many := snapshot.New(s.TakenAt, s.Source, o, s.Gaps)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			diagnose.Diagnose(many, diagnose.Options{})
			runtime.ReadMemStats(&after)
			return float64(after.TotalAlloc - before.TotalAlloc)
		}
		bytes(100) // values that are made once exist by now
		small, large := bytes(400), bytes(800)
		if large > 3*small {
			t.Errorf("%s: %.0f bytes for 400, %.0f for 800", name, small, large)
		}
	}
}
