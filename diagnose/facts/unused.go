package facts

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Unused reports since when the volume has been without a user on the node, and whether that is
// long enough to call it kept. A deleted pod leaves no trace. The proof is a pod that has ended
// but still exists, a claim that is gone or has the condition Unused, or a pod elsewhere that
// wants a single-node volume. Any later change of the node, or a new pod for the volume, restarts
// the count. proven reports that the last user had left by then: otherwise another pod may have
// left a moment ago.
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
				// Where the volume was attached before the pod came, another pod may have used
				// it as well, and may just have left.
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
			// A StatefulSet creates a pod only once its predecessor is gone. But a volume that
			// was attached here later than that was attached for another pod.
			heard, proven = true, proven || ControlledBy(pod, "StatefulSet") && va.CreationTimestamp.Before(&pod.CreationTimestamp) && !p.mayBeKeptByOthers(pod)
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

// UsedByPods begins the controller's message, sent once, that names the other pods with the
// pod's volume (reportMultiAttachError,
// pkg/controller/volume/attachdetach/reconciler/reconciler.go).
const UsedByPods = "Volume is already used by"

// mayBeKeptByOthers reports whether the controller has sent the pod such a message, or may have: the
// events were not read.
func (p *View) mayBeKeptByOthers(pod *corev1.Pod) bool {
	return !p.Snapshot.CompleteIn(snapshot.Events, pod.Namespace) || p.LastEvent(pod, func(e *corev1.Event) bool {
		return e.Reason == AttachFailedReason && strings.Contains(e.Message, UsedByPods)
	}) != nil
}

var keptMounters Kept[map[corev1.UniqueVolumeName][]*corev1.Pod]

// mounters are the pods that use the volume, bound to a node or not.
func (p *View) mounters(volume corev1.UniqueVolumeName) []*corev1.Pod {
	return keptMounters.Of(p, func(p *View) map[corev1.UniqueVolumeName][]*corev1.Pod {
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

// unclaimedSince is when the volume's claim was deleted or lost its last user; zero where
// neither is recorded. unused reports that it had no users then: a claim outlives the pods that
// name it, unless somebody removed its finalizer, which no object shows.
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
