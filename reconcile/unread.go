package reconcile

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// SkippedUnread reports whether the row was skipped because an object was not found that may
// exist, since not all objects of its kind were read.
func (w *World) SkippedUnread(row *Skipped) bool {
	switch row.Reason {
	case NodeNotFound:
		return !w.snapshot.Complete(snapshot.Nodes)
	case ClaimNotFound:
		return !w.snapshot.CompleteIn(snapshot.Claims, row.Pod.Namespace)
	case VolumeNotFound:
		return !w.snapshot.Complete(snapshot.Volumes)
	case CSINodeNotFound:
		return !w.snapshot.Complete(snapshot.CSINodes)
	default:
		return false
	}
}

// Unread returns a kind that was not read in full and whose missing objects might change the
// decision; "" if there is none. If the volume has one PersistentVolume with a claimRef, the pods
// and claims of that namespace are enough. For a pair without a decision, d has no verb.
func (w *World) Unread(d Decision) snapshot.Kind {
	kinds := []snapshot.Kind{snapshot.Pods, snapshot.Claims, snapshot.Volumes}
	switch d.Verb {
	case Keep:
		kinds = []snapshot.Kind{snapshot.CSIDrivers} // the pod that wants the volume was read
	case Attach, MultiAttach: // another node may have the volume, or want it first
		kinds = append(kinds, snapshot.VolumeAttachments, snapshot.Nodes, snapshot.CSIDrivers)
	default: // a detach, because no pod wants the volume
		kinds = append(kinds, snapshot.VolumeAttachments, snapshot.Nodes, snapshot.CSIDrivers, snapshot.CSINodes)
	}
	namespace := ""
	if pvs := w.Volumes(d.Volume); len(pvs) == 1 && pvs[0].Spec.ClaimRef != nil {
		namespace = pvs[0].Spec.ClaimRef.Namespace
	}
	for _, kind := range kinds {
		if w.snapshot.Complete(kind) || namespace != "" && w.snapshot.CompleteIn(kind, namespace) || kind == snapshot.CSIDrivers && w.KnowsDriver(d.Volume) {
			continue
		}
		return kind
	}
	return ""
}

// KnowsDriver reports whether the driver's CSIDriver was read, or cannot matter because the volume
// is not a CSI volume.
func (w *World) KnowsDriver(volume corev1.UniqueVolumeName) bool {
	driver, _, ok := ParseCSI(volume)
	return !ok || w.snapshot.KnowsDriver(driver)
}
