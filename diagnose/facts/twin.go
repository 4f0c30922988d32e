package facts

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// xfs is the file system whose kernel driver mounts a UUID only once on a machine.
const xfs = "xfs"

// HelpsTwin is the advice about a volume with a twin on its node, as for the kernel's message.
func HelpsTwin() string {
	about, _ := driverwords.DuplicateUUID.About()
	return about.Helps
}

// Twin is a clause: which volume with the same data is mounted on the pod's node; "" for none. A
// copy of an XFS volume has its UUID, and the kernel mounts the second one only with the option
// nouuid. The source of a snapshot is not read, so any older volume of the driver may be a
// snapshot copy's twin.
func (p *View) Twin(pod *corev1.Pod, v *corev1.Volume) string {
	own := p.ClaimOf(pod, v)
	pv := p.BoundVolume(pod, v)
	if own == nil || pv == nil || pv.Spec.CSI == nil || pv.Spec.CSI.FSType != xfs || BlockMode(pv) {
		return ""
	}
	from := copiedFrom(own)
	if from.name == (types.NamespacedName{}) {
		return ""
	}
	maybe := ""
	for _, other := range p.Snapshot.PodsOnNode(NodeOf(pod)) {
		if other == pod || !Mounted(other) {
			continue
		}
		for i := range other.Spec.Volumes {
			twin := p.BoundVolume(other, &other.Spec.Volumes[i])
			if twin == nil || twin == pv || twin.Spec.CSI == nil || twin.Spec.CSI.Driver != pv.Spec.CSI.Driver || twin.Spec.CSI.FSType != xfs {
				continue
			}
			key := ClaimKey(other, reconcile.ClaimName(other, &other.Spec.Volumes[i]))
			claim := p.Snapshot.Claim(key)
			switch {
			case from.kind == "PersistentVolumeClaim" && key == from.name:
				return fmt.Sprintf("its volume is a copy of %s, which pod %s has mounted on this node", twin.Name, PodName(other))
			case claim != nil && copiedFrom(claim) == from:
				return fmt.Sprintf("its volume and %s, which pod %s has mounted on this node, are copies of one %s", twin.Name, PodName(other), from.kind)
			case from.kind != "PersistentVolumeClaim" && maybe == "" && twin.CreationTimestamp.Before(&pv.CreationTimestamp):
				maybe = fmt.Sprintf("its volume is a copy of %s %s, which may be one of %s, which pod %s has mounted on this node", from.kind, from.name.Name, twin.Name, PodName(other))
			}
		}
	}
	return maybe
}

// source is the origin of a copied volume.
type source struct {
	kind string
	name types.NamespacedName
}

// copiedFrom is the claim or the snapshot whose data the claim's volume began with; the zero
// value for an empty one.
func copiedFrom(claim *corev1.PersistentVolumeClaim) source {
	if ref := claim.Spec.DataSourceRef; ref != nil {
		return source{ref.Kind, types.NamespacedName{Namespace: ptr.Deref(ref.Namespace, claim.Namespace), Name: ref.Name}}
	}
	if ref := claim.Spec.DataSource; ref != nil {
		return source{ref.Kind, types.NamespacedName{Namespace: claim.Namespace, Name: ref.Name}}
	}
	return source{}
}
