package trace

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

func (u *useTracer) addClaim() {
	claim := u.claim
	u.Claim = &UsedClaim{
		Namespace: claim.Namespace, Name: claim.Name, Phase: string(claim.Status.Phase), CreatedAt: claim.CreationTimestamp,
		TerminatingSince: claim.DeletionTimestamp, StorageClass: u.Unbound(claim).Class, AccessModes: modes(claim.Spec.AccessModes),
		VolumeMode: modeOf(claim.Spec.VolumeMode), Requested: size(claim.Spec.Resources.Requests), Capacity: size(claim.Status.Capacity),
		VolumeName: claim.Spec.VolumeName,
	}
	v := &tracedVolume{VolumeTrace: &VolumeTrace{Claim: claim.Name}, source: &corev1.Volume{VolumeSource: corev1.VolumeSource{
		PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}}}
	if s := u.bound(v); s.State != StageDone {
		u.Claim.Binding = &s
	}
}

func (u *useTracer) addVolume() {
	pv := u.pv
	u.PersistentVolume = &UsedVolume{
		Name: pv.Name, Phase: string(pv.Status.Phase), CreatedAt: pv.CreationTimestamp, TerminatingSince: pv.DeletionTimestamp,
		StorageClass: pv.Spec.StorageClassName, AccessModes: modes(pv.Spec.AccessModes), VolumeMode: modeOf(pv.Spec.VolumeMode),
		Capacity: size(pv.Spec.Capacity), ReclaimPolicy: string(pv.Spec.PersistentVolumeReclaimPolicy), Attachable: Yes,
	}
	v := u.PersistentVolume
	if pv.Spec.ClaimRef != nil {
		v.Claim = u.key.String()
		if ref := pv.Spec.ClaimRef; u.Subject.Kind == "PersistentVolumeClaim" {
			v.Claim = ref.Namespace + "/" + ref.Name
		}
	}
	name, err := u.World.VolumeName(pv)
	v.Volume = name
	if pv.Spec.CSI != nil {
		v.Driver, v.Handle = pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle
	} else if driver, handle, ok := reconcile.ParseCSI(name); ok {
		v.Driver, v.Handle = driver, handle // an in-tree volume that has moved to CSI
	}
	u.vas = slices.Clone(u.AttachmentsNaming(pv.Name))
	add := func(va *storagev1.VolumeAttachment) {
		if !slices.Contains(u.vas, va) {
			u.vas = append(u.vas, va)
		}
	}
	for _, other := range u.VolumesOfDisk(u.DiskName(pv)) { // the same disk under another name
		for _, va := range u.AttachmentsNaming(other.Name) {
			add(va)
		}
	}
	if name != "" {
		for _, a := range u.AttachmentsOf(name) { // also of a volume that is defined in a pod
			add(a.VolumeAttachment)
		}
	}
	switch {
	case err != nil:
		v.Attachable = No
	case v.Driver != "" && !u.Snapshot.KnowsDriver(v.Driver):
		v.Attachable = Unknown
	}
}

func modes(list []corev1.PersistentVolumeAccessMode) []string {
	var names []string
	for _, mode := range list {
		names = append(names, string(mode))
	}
	return names
}

func modeOf(mode *corev1.PersistentVolumeMode) string {
	return string(ptr.Deref(mode, corev1.PersistentVolumeFilesystem))
}

// size is the storage of the list; "" where it has none.
func size(list corev1.ResourceList) string {
	if q, ok := list[corev1.ResourceStorage]; ok {
		return q.String()
	}
	return ""
}
