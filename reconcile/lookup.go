package reconcile

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/sidebyside"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/index"
)

// indexVolumes finds the unique name of every PV that may be attached, so that a
// name in a node status can be given the volume that it means.
func (w *World) indexVolumes() {
	w.recovered = make([]resolvedVolume, len(w.snapshot.Volumes))
	sidebyside.Do(len(w.recovered), w.recover)
	places := make([]placed, len(w.snapshot.Volumes))
	for i, pv := range w.snapshot.Volumes {
		places[i] = placed{pv.Name, i}
		v := &w.recovered[i]
		if v.err == nil {
			w.volumes.add(v.name, i)
		}
		if !inTreeSource(pv, nil) {
			continue // there is no name but this one
		}
		if inTree, err := w.nameOf(&VolumeSpec{PV: pv}); err == nil && inTree != v.name {
			w.volumes.add(inTree, i)
		}
	}
	w.byPV = index.New(places, func(p placed) string { return p.name })
}

// placed is the place in the snapshot of a PV with this name.
type placed struct {
	name  string
	place int
}

// recoveredFrom returns the volume that a VolumeAttachment naming the PV is about; nil where
// there is no such PV.
func (w *World) recoveredFrom(pv string) *resolvedVolume {
	places := w.byPV[pv]
	if len(places) == 0 {
		return nil
	}
	return &w.recovered[places[len(places)-1].place]
}

// recover resolves the volume that a VolumeAttachment naming the PV is about.
func (w *World) recover(place int) {
	v := &w.recovered[place]
	if v.spec, v.err = w.resolver.persistent(w.snapshot.Volumes[place], ""); v.err == nil {
		v.name, v.err = w.recoveredName(v.spec)
	}
}

// volumesByName finds the PVs behind a unique name, sorted.
type volumesByName struct {
	all []*corev1.PersistentVolume
	// places has the place of the first PV in all; several has the names that more than one
	// PV shares.
	places  map[corev1.UniqueVolumeName]int32
	several map[corev1.UniqueVolumeName][]*corev1.PersistentVolume
}

func (v *volumesByName) add(name corev1.UniqueVolumeName, place int) {
	pvs := v.get(name)
	if len(pvs) == 0 {
		v.places[name] = int32(place) //nolint:gosec // no cluster has as many
		return
	}
	if v.several == nil {
		v.several = map[corev1.UniqueVolumeName][]*corev1.PersistentVolume{}
	}
	v.several[name] = append(pvs, v.all[place])
}

func (v *volumesByName) get(name corev1.UniqueVolumeName) []*corev1.PersistentVolume {
	if pvs, ok := v.several[name]; ok {
		return pvs
	}
	if i, ok := v.places[name]; ok {
		return v.all[i : i+1 : i+1]
	}
	return nil
}

// VolumeName is the unique name of a volume. The error says why the controller
// never attaches it. A volume whose plugin has moved to CSI may, up to 1.30, have
// another name on a node that the move has not reached.
func (w *World) VolumeName(pv *corev1.PersistentVolume) (corev1.UniqueVolumeName, error) {
	if v := w.recoveredFrom(pv.Name); v != nil && v.spec != nil && v.spec.PV == pv {
		return v.name, v.err // not translated: it is named in one way only
	}
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
	if pvs := w.volumes.get(name); len(pvs) > 0 {
		return pvs[0]
	}
	return nil
}

// Volumes returns all PVs behind a unique name.
func (w *World) Volumes(name corev1.UniqueVolumeName) []*corev1.PersistentVolume {
	return w.volumes.get(name)
}

// Attachments returns every VolumeAttachment for the pair that the controller
// would recover, whatever its name; sorted by name.
func (w *World) Attachments(pair VolumeNode) []*storagev1.VolumeAttachment {
	if row := w.Actual.Find(pair); row != nil {
		return row.attachments
	}
	return nil
}

// AttachmentVolume returns the volume that a VolumeAttachment is about. The error says why
// the controller cannot tell.
func (w *World) AttachmentVolume(va *storagev1.VolumeAttachment) (corev1.UniqueVolumeName, error) {
	name, _, err := w.attachmentVolume(va)
	return name, err
}

// OrphanedAttachments are the VolumeAttachments that the controller does not find by the name
// that it computes: they have another name, or it cannot tell which volume they are about.
// They are sorted by name.
func (w *World) OrphanedAttachments() []*storagev1.VolumeAttachment { return w.orphans }

// findAttachment fills in row.Attachment. Mostly the object with the computed
// name is among those for the pair, and the name need not be made to find it.
func (row *AttachedVolume) findAttachment(s *snapshot.Snapshot) {
	driver, handle, ok := ParseCSI(row.Volume)
	if ok {
		for _, va := range row.attachments {
			if IsVolumeAttachmentName(va.Name, handle, driver, row.Node) {
				row.Attachment, row.computedName = va, true
				return
			}
		}
		row.Attachment = s.VolumeAttachment(VolumeAttachmentName(handle, driver, row.Node))
		row.computedName = row.Attachment != nil
	}
	if row.Attachment == nil && len(row.attachments) > 0 {
		row.Attachment = row.attachments[0]
	}
}

// LivePods are the pods on the node that may have the volume mounted: bound
// there, not ended, and reaching the volume through a claim by whatever name, or through
// one that its claimRef names and that is gone, or was made again after the pod.
// That is more than the controller's desired state, which leaves out pods on
// nodes that it does not manage and claims that their volume does not point
// back to. Whatever would detach a volume must ask this question too.
func (w *World) LivePods(pair VolumeNode) []*corev1.Pod {
	keeps := w.keepsTerminated(pair.Node)
	return slices.DeleteFunc(slices.Clone(w.users(pair)), func(pod *corev1.Pod) bool { return PodTerminated(pod) && !keeps })
}

// HasRunningPod reports whether one of the LivePods has not ended.
func (w *World) HasRunningPod(pair VolumeNode) bool {
	return slices.ContainsFunc(w.users(pair), func(pod *corev1.Pod) bool { return !PodTerminated(pod) })
}

// users are the pods on the node that reach the volume, ended or not, in the
// order of the snapshot.
func (w *World) users(pair VolumeNode) []*corev1.Pod {
	if row := w.Desired.Find(pair); row != nil {
		return row.users
	}
	return w.others[pair]
}
