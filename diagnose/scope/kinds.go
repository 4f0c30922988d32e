// Package scope decides which of the rarely needed kinds have to be read.
package scope

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// AsksForStorageClasses reports whether a claim is not bound to a volume: the checks about such
// claims need the StorageClass.
func AsksForStorageClasses(o *snapshot.Objects) bool {
	return slices.ContainsFunc(o.Claims, func(claim *corev1.PersistentVolumeClaim) bool {
		return claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == ""
	})
}

// AsksForDeployments reports whether a pod of a ReplicaSet is pending. Deployments are read
// only for new pods of a rollout that wait for the old ones.
func AsksForDeployments(o *snapshot.Objects) bool {
	return slices.ContainsFunc(facts.Pending(o.Pods), func(pod *corev1.Pod) bool {
		owner := metav1.GetControllerOfNoCopy(pod)
		return owner != nil && owner.Kind == "ReplicaSet"
	})
}
