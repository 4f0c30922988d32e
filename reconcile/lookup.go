package reconcile

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// indexVolumes finds the unique name of every PV that may be attached, so that a
// name in a node status can be given the volume that it means.
func (w *World) indexVolumes() {
	for _, pv := range w.snapshot.Volumes {
		var v resolvedVolume
		if v.spec, v.err = w.resolver.persistent(pv, ""); v.err == nil {
			v.name, v.err = w.recoveredName(v.spec)
		}
		w.recovered[pv.Name] = v
		if v.err == nil {
			w.volumes[v.name] = append(w.volumes[v.name], pv)
		}
		if inTree, err := w.nameOf(&VolumeSpec{PV: pv}); err == nil && inTree != v.name {
			w.volumes[inTree] = append(w.volumes[inTree], pv)
		}
	}
}

// VolumeName is the unique name of a volume. The error says why the controller
// never attaches it. A volume whose plugin has moved to CSI may, up to 1.30, have
// another name on a node that the move has not reached.
func (w *World) VolumeName(pv *corev1.PersistentVolume) (corev1.UniqueVolumeName, error) {
	spec, err := w.resolver.persistent(pv, "")
	if err != nil {
		return "", err
	}
	return w.nameOf(spec)
}

func (w *World) nameOf(spec *VolumeSpec) (corev1.UniqueVolumeName, error) {
	plugin, err := w.plugins.attachable(spec)
	if err != nil {
		return "", err
	}
	return uniqueName(plugin, spec)
}

// Volume returns the PV behind a unique name: the first by name where several
// share one handle, nil where there is none.
func (w *World) Volume(name corev1.UniqueVolumeName) *corev1.PersistentVolume {
	if pvs := w.volumes[name]; len(pvs) > 0 {
		return pvs[0]
	}
	return nil
}

// Volumes returns all PVs behind a unique name.
func (w *World) Volumes(name corev1.UniqueVolumeName) []*corev1.PersistentVolume {
	return w.volumes[name]
}

// Attachments returns every VolumeAttachment for the pair that the controller
// would recover, whatever its name; sorted by name.
func (w *World) Attachments(pair VolumeNode) []*storagev1.VolumeAttachment {
	if row := w.Actual[pair]; row != nil {
		return row.attachments
	}
	return nil
}

// AttachmentVolume says which volume a VolumeAttachment is about. The error
// says why the controller cannot tell.
func (w *World) AttachmentVolume(va *storagev1.VolumeAttachment) (corev1.UniqueVolumeName, error) {
	name, _, err := w.attachmentVolume(va)
	return name, err
}

// findAttachment fills in row.Attachment.
func (row *AttachedVolume) findAttachment(s *snapshot.Snapshot) {
	if name := attachmentName(row.VolumeNode); name != "" {
		row.Attachment = s.VolumeAttachment(name)
		row.computedName = row.Attachment != nil
	}
	if row.Attachment == nil && len(row.attachments) > 0 {
		row.Attachment = row.attachments[0]
	}
}

// LivePods are the pods on the node that may have the volume mounted: bound
// there, not ended, and reaching the volume through a claim by whatever name.
// That is more than the controller's desired state, which leaves out pods on
// nodes that it does not manage and claims that their volume does not point
// back to. Whatever would detach a volume must ask this question too.
func (w *World) LivePods(pair VolumeNode) []*corev1.Pod {
	keeps := w.keepsTerminated(pair.Node)
	return slices.DeleteFunc(slices.Clone(w.resolved.users[pair]), func(pod *corev1.Pod) bool { return PodTerminated(pod) && !keeps })
}
