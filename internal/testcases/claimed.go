package testcases

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// ClaimedTwice reports whether a claim names a volume that is bound to a claim of another
// namespace. Otherwise all users of a volume are in one namespace.
func ClaimedTwice(s *snapshot.Snapshot) bool {
	return slices.ContainsFunc(s.Claims, func(claim *corev1.PersistentVolumeClaim) bool {
		pv := s.Volume(claim.Spec.VolumeName)
		return pv != nil && pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.Namespace != claim.Namespace
	})
}

// ChangedItsMind reports whether there are VolumeAttachments of a driver whose CSIDriver says that
// it does not attach (VD108). Without the CSIDriver these VolumeAttachments count.
func ChangedItsMind(s *snapshot.Snapshot) bool {
	return slices.ContainsFunc(s.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool {
		d := s.CSIDriver(va.Spec.Attacher)
		return d != nil && !ptr.Deref(d.Spec.AttachRequired, true)
	})
}
