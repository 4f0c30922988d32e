// Package volumehealth quotes what drivers report about the health of volumes, and about their
// storage as seen from a node. Kubernetes has these fields since 1.37, behind the feature gate
// CSIVolumeHealth.
package volumehealth

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
)

// Condition is a problem that a driver reports.
type Condition struct {
	// Object is kind/name, or kind/namespace/name where the object has a namespace.
	Object, Field string
	At            metav1.Time
	// Status is one of the API's categories, Reason the driver's own.
	Status, Reason, Message string
}

var means = map[string]string{
	string(corev1.VolumeHealthInaccessible): "the volume cannot be accessed",
	string(corev1.VolumeHealthDataLoss):     "data on the volume is lost",
	string(corev1.VolumeHealthDegraded):     "the volume works, but not as it should",
	string(storagev1.StorageUnreachable):    "the node does not reach the storage",
	string(storagev1.StorageDegraded):       "the storage works, but not as it should",
}

// Means is the meaning of Status in plain words; "" for an unknown category.
func (c Condition) Means() string { return means[c.Status] }

// Text is the status, and the driver's own reason and message.
func (c Condition) Text() string {
	return c.Status + ", " + c.Reason + ": " + cmp.Or(c.Message, "no message")
}

// Of returns what the driver reports about the pod's volume: about the claim, about the volume
// on the pod's node, and about the storage as seen from there. claim is nil where there is
// none.
func Of(v *facts.View, pod *corev1.Pod, volume, driver string, claim *corev1.PersistentVolumeClaim) []Condition {
	var all []Condition
	if claim != nil && claim.Status.HealthStatus != nil {
		for _, c := range claim.Status.HealthStatus.HealthConditions {
			all = append(all, Condition{"persistentvolumeclaim/" + facts.ClaimName(claim), "status.healthStatus",
				claim.Status.HealthStatus.LastTransitionTime, string(c.Status), c.Reason, c.Message})
		}
	}
	for _, health := range pod.Status.VolumeHealth {
		if health.Name != volume {
			continue
		}
		for _, c := range health.HealthConditions {
			all = append(all, Condition{"pod/" + facts.PodName(pod), "status.volumeHealth", health.LastTransitionTime, string(c.Status), c.Reason, c.Message})
		}
	}
	node := v.Snapshot.CSINode(types.NodeName(pod.Spec.NodeName))
	if node == nil {
		return all
	}
	for _, health := range node.Status.StorageHealth {
		if health.Name != driver || driver == "" {
			continue
		}
		for _, c := range health.HealthConditions {
			if concerns(c, claim) {
				all = append(all, Condition{"csinode/" + node.Name, "status.storageHealth", c.LastTransitionTime, string(c.Status), c.Reason, c.Message})
			}
		}
	}
	return all
}

// concerns reports whether the condition is about volumes like the claim's.
func concerns(c storagev1.StorageHealthCondition, claim *corev1.PersistentVolumeClaim) bool {
	if claim == nil {
		return true
	}
	if c.AccessMode != nil && !slices.Contains(claim.Spec.AccessModes, *c.AccessMode) {
		return false
	}
	return c.VolumeMode == nil || *c.VolumeMode == ptr.Deref(claim.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
}
