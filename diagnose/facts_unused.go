package diagnose

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

const (
	// unusedSettles is how long a volume must have been without a user before it
	// counts as kept: the kubelet unmounts at once, looks again at most 2 min 2 s
	// after a failure, and writes its list every 10 s; twice that and some margin.
	unusedSettles = 5 * time.Minute
	// unusedSettlesUnseen is the same where nothing says when the last user left.
	// A pod that waits elsewhere may have come as the old one was told to go: this
	// covers the graces that are given, and the hand-over after them.
	unusedSettlesUnseen = 30 * time.Minute
)

// unused says that a volume which no pod on the node uses has been without a
// user long enough to be called kept, and since when as the objects prove it. A
// pod that is gone leaves no trace, so that without one of these signs nothing
// is known: pods that have ended but are still there, the volume's claim gone
// or marked unused, or a pod elsewhere that wants a volume for one node at a
// time. Whatever has happened since to the node, or brought another pod for the
// volume, starts the count anew.
func (p *Pass) unused(va attachment) (since metav1.Time, long bool) {
	pair, node := va.VolumeNode, p.Snapshot.Node(va.Node)
	if node == nil || readyCondition(node) == nil {
		return metav1.Time{}, false
	}
	since = latest(node.CreationTimestamp, readyCondition(node).LastTransitionTime)
	proven := false
	for _, pv := range p.World.Volumes(pair.Volume) {
		if at := p.unclaimedSince(pv); !at.IsZero() {
			since, proven = latest(since, at), true
		}
	}
	heard, exclusive := proven, p.oneNode(pair.Volume)
	for _, pod := range p.mounters(pair.Volume) {
		if reconcile.PodTerminated(pod) {
			if pod.Spec.NodeName == string(pair.Node) {
				// Where the volume was attached before the pod came, another may have
				// used it beside this one, and may just have gone.
				first, bound := va.CreationTimestamp, boundAt(pod)
				since = latest(since, lastSign(pod))
				if pod.DeletionTimestamp != nil || !first.Before(&bound) {
					heard, proven = true, proven || tellsEnd(pod)
				}
			}
			continue
		}
		since = latest(since, pod.CreationTimestamp)
		if exclusive {
			// A StatefulSet makes a pod only once its predecessor is gone.
			owner := metav1.GetControllerOf(pod)
			heard, proven = true, proven || owner != nil && owner.Kind == "StatefulSet"
		}
	}
	switch {
	case proven:
		return since, p.Age(since) >= unusedSettles
	case heard:
		return since, p.Age(since) >= unusedSettlesUnseen
	default:
		return metav1.Time{}, false
	}
}

// mounters are the pods on any node, or none, that mount the volume.
func (p *Pass) mounters(volume corev1.UniqueVolumeName) []*corev1.Pod {
	return p.remember().mounters.get(func() map[corev1.UniqueVolumeName][]*corev1.Pod {
		byVolume := map[corev1.UniqueVolumeName][]*corev1.Pod{}
		for _, pod := range p.Snapshot.Pods {
			for i := range pod.Spec.Volumes {
				name, _, err := p.World.PodVolume(pod, &pod.Spec.Volumes[i])
				if pods := byVolume[name]; err == nil && (len(pods) == 0 || pods[len(pods)-1] != pod) {
					byVolume[name] = append(pods, pod)
				}
			}
		}
		return byVolume
	})[volume]
}

// unclaimedSince is when the volume's claim went away, or ceased to have users;
// zero where neither is recorded. A claim outlives the pods that name it.
func (p *Pass) unclaimedSince(pv *corev1.PersistentVolume) metav1.Time {
	if pv.Status.Phase == corev1.VolumeReleased && pv.Status.LastPhaseTransitionTime != nil {
		return *pv.Status.LastPhaseTransitionTime
	}
	if pv.Spec.ClaimRef == nil {
		return metav1.Time{}
	}
	claim := p.Snapshot.Claim(types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name})
	if claim == nil || claim.Spec.VolumeName != pv.Name {
		return metav1.Time{}
	}
	for _, c := range claim.Status.Conditions {
		if c.Type == corev1.PersistentVolumeClaimUnused && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime
		}
	}
	return metav1.Time{}
}

// lastSign is the last thing that a pod's status tells of it.
func lastSign(pod *corev1.Pod) metav1.Time {
	last := boundAt(pod)
	for _, c := range pod.Status.Conditions {
		last = latest(last, c.LastTransitionTime)
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if c.State.Terminated != nil {
			last = latest(last, c.State.Terminated.FinishedAt)
		}
	}
	if pod.DeletionTimestamp != nil {
		last = latest(last, *pod.DeletionTimestamp)
	}
	return last
}

// tellsEnd says that the status of a pod that has ended tells when. That of one
// that never came to run mostly does not: it was not Ready before either.
func tellsEnd(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil ||
		slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool {
			return c.State.Terminated != nil && !c.State.Terminated.FinishedAt.IsZero()
		}) ||
		slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue
		})
}

// endedPods are the pods on the node that have ended and name the volume still,
// in the order of their names.
func (p *Pass) endedPods(pair reconcile.VolumeNode) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, pod := range p.Snapshot.PodsOnNode(pair.Node) {
		if reconcile.PodTerminated(pod) && p.mounts(pod, pair.Volume) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// neverRan says that a pod has failed without a trace of a container that ran.
// The kubelet that ends such a pod writes that it does not know its containers.
func neverRan(pod *corev1.Pod) bool {
	ran := func(c corev1.ContainerStatus) bool {
		if c.State.Running != nil || c.LastTerminationState.Terminated != nil || c.RestartCount > 0 {
			return true
		}
		if t := c.State.Terminated; t != nil {
			return t.Reason != "ContainerStatusUnknown" || !t.StartedAt.IsZero()
		}
		return c.State.Waiting != nil && !slices.Contains(beforeMounts, c.State.Waiting.Reason)
	}
	return pod.Status.Phase == corev1.PodFailed && !slices.ContainsFunc(pod.Status.InitContainerStatuses, ran) &&
		!slices.ContainsFunc(pod.Status.ContainerStatuses, ran) && len(pod.Status.EphemeralContainerStatuses) == 0
}
