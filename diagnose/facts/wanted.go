package facts

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// DetachWanted bounds the controller's detachRequestedTime, from which it counts its wait for
// an unmount and which no object shows. It is not before the controller took its lease, nor
// before the last of the pods there ended; it is not after the detach began or, where it has
// not begun, after the snapshot was taken. Both bounds are zero where somebody wants the volume
// on the node.
//
// A deleted pod leaves no trace, so the moment is often much later than notBefore.
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
		// The controller deletes it after it began to count. A person may have deleted it
		// earlier, which shows only where a pod has ended since.
		if at := va.DeletionTimestamp; at != nil && at.Before(&notAfter) && !at.Before(&notBefore) {
			notAfter = *at
		}
	}
	return notBefore, notAfter
}

// endedAt is the earliest moment from which an ended pod may no longer count as a user of its
// volumes (PodTerminated); zero where its status does not show it.
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
	return Latest(at, EndAsked(pod))
}
