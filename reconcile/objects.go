package reconcile

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// keepsTerminated reports whether pods that have ended on the node still want their
// volumes, and the kubelet keeps them mounted.
func (w *World) keepsTerminated(node types.NodeName) bool {
	n := w.snapshot.Node(node)
	return n != nil && n.Annotations[KeepTerminatedAnnotation] == "true" && w.Behaviours.Has(KeepsTerminatedPodVolumes)
}

// CanBeAttached reports whether some plugin may attach a volume of this source. The
// controller tries and drops the others with a line at its highest log level; to list them
// for every pod would bury what matters.
func CanBeAttached(v *corev1.Volume) bool {
	return v.Secret == nil && v.ConfigMap == nil && v.DownwardAPI == nil && v.Projected == nil &&
		v.EmptyDir == nil && v.HostPath == nil && v.Image == nil && v.GitRepo == nil
}

// PodTerminated mirrors IsPodTerminated: the pod has ended, or is being deleted
// and none of its containers runs any more.
func PodTerminated(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	return pod.DeletionTimestamp != nil && notRunning(pod.Status.InitContainerStatuses) &&
		notRunning(pod.Status.ContainerStatuses) && notRunning(pod.Status.EphemeralContainerStatuses)
}

func notRunning(statuses []corev1.ContainerStatus) bool {
	return !slices.ContainsFunc(statuses, func(c corev1.ContainerStatus) bool {
		return c.State.Terminated == nil && c.State.Waiting == nil
	})
}

// NodeReady mirrors nodeIsHealthy: it is false for a missing node too.
func NodeReady(node *corev1.Node) bool {
	if node == nil {
		return false
	}
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// OutOfService mirrors hasOutOfServiceTaint: only the key counts, whatever the value and the
// effect.
func OutOfService(node *corev1.Node) bool {
	return node != nil && slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == corev1.TaintNodeOutOfService
	})
}

func namespaced(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}
