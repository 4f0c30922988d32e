// Package scope says which of the kinds that are seldom needed have to be read.
package scope

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// AsksForStorageClasses reports whether a claim has no volume: of those the class says something.
func AsksForStorageClasses(o *snapshot.Objects) bool {
	return slices.ContainsFunc(o.Claims, func(claim *corev1.PersistentVolumeClaim) bool {
		return claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == ""
	})
}

// AsksForDeployments reports whether anything here looks at a Deployment: one is
// asked about a new pod of it that waits for the old one (rollout).
func AsksForDeployments(o *snapshot.Objects) bool {
	return slices.ContainsFunc(facts.Pending(o.Pods), func(pod *corev1.Pod) bool {
		owner := metav1.GetControllerOfNoCopy(pod)
		return owner != nil && owner.Kind == "ReplicaSet"
	})
}
