package output

import (
	"fmt"
	"io"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// manyOf returns a cluster in which one volume has n more objects of the kind.
func manyOf(t testing.TB, kind string, n int) *snapshot.Snapshot {
	t.Helper()
	c, err := testcases.Load("vd301-clobbered")
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	base := s.VolumeAttachments[0]
	o := testcases.Copy(s.Objects)
	named := func(i int) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: fmt.Sprintf("many-%d", i), UID: types.UID(fmt.Sprintf("many-%d", i)), CreationTimestamp: base.CreationTimestamp}
	}
	for i := range n {
		va := base.DeepCopy()
		va.ObjectMeta = named(i)
		switch kind {
		case "attachments on nodes that are gone":
			va.Spec.NodeName = fmt.Sprintf("gone-%d", i)
			o.VolumeAttachments = append(o.VolumeAttachments, va)
		case "attachments on nodes":
			va.Spec.NodeName = fmt.Sprintf("many-%d", i)
			node := s.Nodes[0].DeepCopy()
			node.Name, node.UID = named(i).Name, named(i).UID
			o.VolumeAttachments, o.Nodes = append(o.VolumeAttachments, va), append(o.Nodes, node)
			o.CSINodes = append(o.CSINodes, &storagev1.CSINode{ObjectMeta: named(i), Spec: s.CSINodes[0].Spec})
		case "pods on nodes":
			node := s.Nodes[0].DeepCopy()
			node.Name, node.UID = named(i).Name, named(i).UID
			o.Nodes = append(o.Nodes, node)
			pod := s.Pods[0].DeepCopy()
			m := named(i)
			pod.Name, pod.UID, pod.Spec.NodeName = m.Name, m.UID, m.Name
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
			o.Pods = append(o.Pods, pod)
		case "claims of one disk":
			pv, claim, pod := s.Volumes[0].DeepCopy(), s.Claims[0].DeepCopy(), s.Pods[0].DeepCopy()
			m := named(i)
			pv.Name, pv.UID, claim.Name, claim.UID, pod.Name, pod.UID = m.Name, m.UID, m.Name, m.UID, m.Name, m.UID
			pv.Spec.ClaimRef.Name, pv.Spec.ClaimRef.UID, claim.Spec.VolumeName = m.Name, m.UID, m.Name
			for j := range pod.Spec.Volumes {
				if pod.Spec.Volumes[j].PersistentVolumeClaim != nil {
					pod.Spec.Volumes[j].PersistentVolumeClaim.ClaimName = m.Name
				}
			}
			pod.Status = corev1.PodStatus{Phase: corev1.PodPending}
			o.Volumes, o.Claims, o.Pods = append(o.Volumes, pv), append(o.Claims, claim), append(o.Pods, pod)
		}
	}
	return snapshot.New(s.TakenAt, s.Source, o, s.Gaps)
}

// TestCost checks that the memory for each format grows linearly with the number of objects of one
// volume, not quadratically.
func TestCost(t *testing.T) {
	for _, kind := range []string{"attachments on nodes that are gone", "attachments on nodes", "pods on nodes", "claims of one disk"} {
		reports := map[int]*finding.Report{}
		for _, n := range []int{50, 300, 600} {
			reports[n] = diagnose.Diagnose(manyOf(t, kind, n), diagnose.Options{})
		}
		for _, format := range ReportFormats.Names() {
			once := func(n int) float64 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				if err := ReportFormats.Print(io.Discard, format, reports[n], Options{}); err != nil {
					t.Error(err)
				}
				runtime.ReadMemStats(&after)
				return float64(after.TotalAlloc - before.TotalAlloc)
			}
			// A garbage collection in between empties the pools of the encoders, which then grow anew.
			bytes := func(n int) float64 { return min(once(n), once(n), once(n)) }
			once(50) // allocates everything that is made only once
			if small, large := bytes(300), bytes(600); large > 3*small {
				t.Errorf("%s, %s: %.0f bytes for 300, %.0f for 600", kind, format, small, large)
			}
		}
	}
}
