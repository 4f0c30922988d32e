package facts

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// DetachWanted bounds the moment from which the controller at work counts the
// time to wait for an unmount: its detachRequestedTime, which no object shows.
// It is not before the controller took its lease, nor before the last of the
// pods there ended, and not after the detach began or, where it has not, the
// snapshot. Both are zero where somebody wants the volume on the node.
//
// A pod whose object is gone says nothing any more, so the moment is often
// much later than notBefore.
func (p *View) DetachWanted(pair reconcile.VolumeNode) (notBefore, notAfter metav1.Time) {
	if p.World.Desired.Find(pair) != nil {
		return metav1.Time{}, metav1.Time{}
	}
	notBefore, notAfter = p.ControllerStart(), metav1.NewTime(p.Snapshot.TakenAt)
	for _, pod := range p.Snapshot.PodsOnNode(pair.Node) {
		if reconcile.PodTerminated(pod) && p.Mounts(pod, pair.Volume) {
			notBefore = Latest(notBefore, endedAt(pod))
		}
	}
	for _, va := range p.World.Attachments(pair) {
		// The controller deletes it after it began to count; a person may have been
		// there before, which shows only where a pod has ended since.
		if at := va.DeletionTimestamp; at != nil && at.Before(&notAfter) && !at.Before(&notBefore) {
			notAfter = *at
		}
	}
	return notBefore, notAfter
}

// endedAt is the earliest moment at which a pod that has ended can have ceased
// to count as a user of its volumes (PodTerminated); zero where it does not say.
func endedAt(pod *corev1.Pod) metav1.Time {
	var at metav1.Time
	for _, statuses := range [][]corev1.ContainerStatus{
		pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses,
	} {
		for _, c := range statuses {
			if c.State.Terminated != nil {
				at = Latest(at, c.State.Terminated.FinishedAt)
			}
		}
	}
	if pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded {
		return at
	}
	return Latest(at, deletionAsked(pod))
}

// deletionAsked is when the pod was told to go. Its deletionTimestamp is later:
// it is when its grace ends.
func deletionAsked(pod *corev1.Pod) metav1.Time {
	if pod.DeletionTimestamp == nil {
		return metav1.Time{}
	}
	return metav1.Unix(pod.DeletionTimestamp.Unix()-ptr.Deref(pod.DeletionGracePeriodSeconds, 0), 0)
}
