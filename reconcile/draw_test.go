package reconcile

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// drawObjects draws a small cluster in which the objects often refer to one another by name.
func drawObjects(t *rapid.T) snapshot.Objects {
	var o snapshot.Objects
	coin := func(label string) bool { return rapid.IntRange(0, 3).Draw(t, label) == 0 }
	nodes := rapid.SampledFrom([]string{"n1", "n2", "n3", "gone"})
	for i := range rapid.IntRange(1, 4).Draw(t, "volumes") {
		pv := newPV(fmt.Sprintf("v%d", i+1))
		pv.Spec.AccessModes = rapid.SampledFrom([][]corev1.PersistentVolumeAccessMode{
			{corev1.ReadWriteOnce}, {corev1.ReadWriteOnce}, {corev1.ReadWriteMany}, nil,
		}).Draw(t, "modes")
		if coin("fc") {
			source(corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{WWIDs: []string{pv.Name}}})(pv)
		}
		claim := newClaim(pv.Name)
		if coin("pending") {
			claim.Status.Phase = corev1.ClaimPending
		}
		o.Volumes, o.Claims = append(o.Volumes, pv), append(o.Claims, claim)
	}
	names := volumeNames(o)
	for _, name := range []string{"n1", "n2", "n3"} {
		n := newNode(name, lists(rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "attached")...),
			uses(rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 2, rapid.ID).Draw(t, "in use")...))
		for _, edit := range []func(*corev1.Node){unmanaged, notReady, outOfService} {
			if coin("edit") {
				edit(n)
			}
		}
		o.Nodes = append(o.Nodes, n)
	}
	for i := range rapid.IntRange(0, 4).Draw(t, "pods") {
		pvs := rapid.SliceOfN(rapid.SampledFrom(o.Volumes), 0, 2).Draw(t, "claims")
		pod := newPod(fmt.Sprintf("p%d", i+1), nodes.Draw(t, "node"), nil)
		for j, pv := range pvs {
			pod.Spec.Volumes = append(pod.Spec.Volumes, newPod("", "", []string{pv.Name}).Spec.Volumes...)
			pod.Spec.Volumes[j].Name = fmt.Sprintf("data%d", j)
		}
		if coin("ended") {
			pod.Status.Phase = corev1.PodFailed
		}
		o.Pods = append(o.Pods, pod)
	}
	for _, pv := range o.Volumes {
		if node := nodes.Draw(t, "attachment"); coin("attachment") || coin("one more attachment") {
			o.VolumeAttachments = append(o.VolumeAttachments, newAttachment(pv.Name, node))
		}
	}
	return o
}

func volumeNames(o snapshot.Objects) []corev1.UniqueVolumeName {
	names := []corev1.UniqueVolumeName{"kubernetes.io/aws-ebs/x", "garbage", "kubernetes.io/csi/d^unknown"}
	w := NewWorld(snapshotOf(cloneObjects(o)), Options{})
	for _, pv := range o.Volumes {
		if name, err := w.VolumeName(pv); err == nil {
			names = append(names, name)
		}
	}
	return names
}

func drawOptions(t *rapid.T) Options {
	return Options{DisableForceDetachOnTimeout: rapid.Bool().Draw(t, "disable force detach")}
}
