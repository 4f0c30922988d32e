package testcases

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

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
