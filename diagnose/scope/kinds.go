// Package scope decides which of the rarely needed objects have to be read, and which once more.
package scope

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
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

// AsksForCounts reports whether the counts of kube-controller-manager may decide whether it has
// some attachment: one that is young and that its node does not list.
func AsksForCounts(s *snapshot.Snapshot) bool {
	return slices.ContainsFunc(s.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool {
		node := s.Node(types.NodeName(va.Spec.NodeName))
		if !facts.Holds(va) || node == nil || s.TakenAt.Sub(va.CreationTimestamp.Time) >= facts.DanglingGrace {
			return false
		}
		return !slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool {
			driver, handle, ok := reconcile.ParseCSI(v.Name)
			return ok && reconcile.VolumeAttachmentName(handle, driver, types.NodeName(node.Name)) == va.Name
		})
	})
}
