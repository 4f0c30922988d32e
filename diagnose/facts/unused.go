package facts

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Unused reports whether a volume which no pod on the node uses has been without a
// user long enough to be called kept, and since when as the objects prove it. A
// pod that is gone leaves no trace, so that without one of these signs nothing
// is known: pods that have ended but are still there, the volume's claim gone
// or marked Unused, or a pod elsewhere that wants a volume for one node at a
// time. Whatever has happened since to the node, or brought another pod for the
// volume, starts the count again. proven says that the last user is known to have
// left by then: else it may have been another pod, which left a moment ago.
func (p *View) Unused(va Attachment) (since metav1.Time, long, proven bool) {
	pair, node := va.VolumeNode, p.Snapshot.Node(va.Node)
	if node == nil || ReadyCondition(node) == nil {
		return metav1.Time{}, false, false
	}
	since = Latest(node.CreationTimestamp, ReadyCondition(node).LastTransitionTime, va.CreationTimestamp)
	heard, exclusive := false, p.OneNode(pair.Volume)
	for _, pv := range p.World.Volumes(pair.Volume) {
		if at, unused := p.unclaimedSince(pv); !at.IsZero() {
			since, heard, proven = Latest(since, at), true, proven || unused
		}
	}
	for _, pod := range p.mounters(pair.Volume) {
		if reconcile.PodTerminated(pod) {
			if pod.Spec.NodeName == string(pair.Node) {
				// Where the volume was attached before the pod came, another may have
				// used it beside this one, and may just have gone.
				first, bound := va.CreationTimestamp, BoundAt(pod)
				since = Latest(since, LastSign(pod))
				if pod.DeletionTimestamp != nil || !first.Before(&bound) {
					heard, proven = true, proven || TellsEnd(pod)
				}
			}
			continue
		}
		since = Latest(since, pod.CreationTimestamp)
		if exclusive {
			// A StatefulSet makes a pod only once its predecessor is gone. But a volume that was
			// attached here later was so for another pod.
			owner := metav1.GetControllerOf(pod)
			heard, proven = true, proven || owner != nil && owner.Kind == "StatefulSet" && va.CreationTimestamp.Before(&pod.CreationTimestamp) && !p.keptByOthers(pod)
		}
	}
	switch {
	case proven:
		return since, p.Lasted(since, UnusedGrace), true
	case heard:
		return since, p.Lasted(since, UnusedGraceUnseen), false
	default:
		return metav1.Time{}, false, false
	}
}

// UsedByPods is how the controller begins to tell a pod, once, which others have its volume
// (reportMultiAttachError, pkg/controller/volume/attachdetach/reconciler/reconciler.go).
const UsedByPods = "Volume is already used by"

// keptByOthers reports whether the controller has told the pod so.
func (p *View) keptByOthers(pod *corev1.Pod) bool {
	return p.LastEvent(pod, func(e *corev1.Event) bool {
		return e.Reason == AttachFailedReason && strings.Contains(e.Message, UsedByPods)
	}) != nil
}

// mounters are the pods on any node, or none, that mount the volume.
func (p *View) mounters(volume corev1.UniqueVolumeName) []*corev1.Pod {
	return p.memory.mounters.get(p, func(p *View) map[corev1.UniqueVolumeName][]*corev1.Pod {
		byVolume := make(map[corev1.UniqueVolumeName][]*corev1.Pod, len(p.Snapshot.Volumes))
		for name, pod := range p.World.Mounts() {
			if pods := byVolume[name]; len(pods) == 0 {
				byVolume[name] = []*corev1.Pod{pod}
			} else if pods[len(pods)-1] != pod {
				byVolume[name] = append(pods, pod)
			}
		}
		return byVolume
	})[volume]
}

// unclaimedSince is when the volume's claim went away, or ceased to have users;
// zero where neither is recorded. unused says that it had no users then: a claim outlives the pods
// that name it, but for one whose finalizer somebody took off, and no object tells that of it.
func (p *View) unclaimedSince(pv *corev1.PersistentVolume) (since metav1.Time, unused bool) {
	if pv.Status.Phase == corev1.VolumeReleased && pv.Status.LastPhaseTransitionTime != nil {
		return *pv.Status.LastPhaseTransitionTime, false
	}
	if pv.Spec.ClaimRef == nil {
		return metav1.Time{}, false
	}
	claim := p.Snapshot.Claim(types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name})
	if claim == nil || claim.Spec.VolumeName != pv.Name {
		return metav1.Time{}, false
	}
	for _, c := range claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimUnused && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime, true
		}
	}
	return metav1.Time{}, false
}

// LastSign is the last thing that a pod's status tells of it.
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

// TellsEnd reports whether the status of a pod that has ended tells when. That of one
// that never came to run mostly does not: it was not Ready before either.
func TellsEnd(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil ||
		slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
			return c.State.Terminated != nil && !c.State.Terminated.FinishedAt.IsZero()
		}) ||
		HasCondition(pod, corev1.DisruptionTarget)
}

// EndedSince is when the last of the pods that have ended did so, and for how long that
// has to be before their volume counts as kept.
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

// EndedPods are the pods on the node that have ended and name the volume still,
// in the order of their names.
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
