package facts

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// LastSign is the latest moment that the pod's status records.
func LastSign(pod *corev1.Pod) metav1.Time {
	last := BoundAt(pod)
	for _, c := range pod.Status.Conditions {
		last = Latest(last, c.LastTransitionTime)
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Terminated != nil {
			last = Latest(last, c.State.Terminated.FinishedAt)
		}
	}
	if pod.DeletionTimestamp != nil {
		last = Latest(last, *pod.DeletionTimestamp)
	}
	return last
}

// TellsEnd reports whether the status of a pod that has ended records when. A pod that never
// ran mostly has no such record: it was not Ready before either.
func TellsEnd(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil ||
		slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
			return c.State.Terminated != nil && !c.State.Terminated.FinishedAt.IsZero()
		}) ||
		HasCondition(pod, corev1.DisruptionTarget)
}

// EndedSince is when the last of the ended pods ended, and how long ago that must be before
// their volume counts as kept.
func EndedSince(pods []*corev1.Pod) (ended metav1.Time, granted time.Duration) {
	granted = UnusedGrace
	for _, pod := range pods {
		ended = Latest(ended, LastSign(pod))
		if !TellsEnd(pod) {
			granted = UnusedGraceUnseen
		}
	}
	return ended, granted
}

// EndedPods are the pods on the node that have ended and still name the volume, in the order of
// their names.
func (p *View) EndedPods(pair reconcile.VolumeNode) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range p.Snapshot.PodsOnNode(pair.Node) {
		if reconcile.PodTerminated(pod) && p.Mounts(pod, pair.Volume) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// NeverRan reports whether the pod has failed before the kubelet mounted its volumes.
func NeverRan(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodFailed && !MayUseVolumes(pod)
}
