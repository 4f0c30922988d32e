package attached

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// unused reports since when the volume has been without a user on the node, and whether that is
// longer than UnusedGrace. proven reports whether an object shows that the last user had left
// by that time. A deleted pod leaves no trace: without a proof, one may have left a moment ago. The
// proof is a pod that has ended but still exists, a claim that is gone or has the condition Unused,
// or a pod elsewhere that wants a single-node volume. Any later change of the node, or a new pod
// for the volume, restarts the count. So does a new controller: while none leads, nothing is detached, and any
// pod may use the volume there again, which no message to the pod that waits then shows.
func unused(p *facts.View, va facts.Attachment) (since metav1.Time, long, proven bool) {
	pair, node := va.VolumeNode, p.Snapshot.Node(va.Node)
	if node == nil || facts.ReadyCondition(node) == nil {
		return metav1.Time{}, false, false
	}
	since = facts.Latest(node.CreationTimestamp, facts.ReadyCondition(node).LastTransitionTime, va.CreationTimestamp)
	heard, exclusive := false, p.OneNode(pair.Volume)
	for _, pv := range p.World.Volumes(pair.Volume) {
		if at, unused := unclaimedSince(p, pv); !at.IsZero() {
			since, heard, proven = facts.Latest(since, at), true, proven || unused
		}
	}
	for _, pod := range mounters(p, pair.Volume) {
		if reconcile.PodTerminated(pod) {
			if pod.Spec.NodeName == string(pair.Node) {
				// Where the volume was attached before the pod came, another pod may have used
				// it as well, and may just have left.
				first, bound := va.CreationTimestamp, facts.BoundAt(pod)
				since = facts.Latest(since, facts.LastSign(pod))
				if pod.DeletionTimestamp != nil || !first.Before(&bound) {
					heard, proven = true, proven || facts.TellsEnd(pod)
				}
			}
			continue
		}
		since = facts.Latest(since, pod.CreationTimestamp)
		if exclusive {
			// A StatefulSet creates a pod only once its predecessor is gone. But a volume that
			// was attached here later than that was attached for another pod.
			heard = true
			if facts.ControlledBy(pod, "StatefulSet") && va.CreationTimestamp.Before(&pod.CreationTimestamp) && !mayBeKeptByOthers(p, pod) {
				since, proven = facts.Latest(since, p.ControllerStart()), true
			}
		}
	}
	switch {
	case proven:
		return since, p.Lasted(since, facts.UnusedGrace), true
	case heard:
		return since, p.Lasted(since, facts.UnusedGraceUnseen), false
	default:
		return metav1.Time{}, false, false
	}
}

// mayBeKeptByOthers reports whether the controller has sent the pod such a message, or may have, as the
// events were not read, or would have, as no controller leads.
func mayBeKeptByOthers(p *facts.View, pod *corev1.Pod) bool {
	return p.ControllerDown() != nil || !p.Snapshot.CompleteIn(snapshot.Events, pod.Namespace) || p.LastEvent(pod, func(e *corev1.Event) bool {
		return e.Reason == facts.AttachFailedReason && strings.Contains(e.Message, facts.UsedByPods)
	}) != nil
}

var keptMounters facts.Kept[map[corev1.UniqueVolumeName][]*corev1.Pod]

// mounters are the pods that use the volume, bound to a node or not.
func mounters(p *facts.View, volume corev1.UniqueVolumeName) []*corev1.Pod {
	return keptMounters.Of(p, func(p *facts.View) map[corev1.UniqueVolumeName][]*corev1.Pod {
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
func unclaimedSince(p *facts.View, pv *corev1.PersistentVolume) (since metav1.Time, unused bool) {
	if pv.Status.Phase == corev1.VolumeReleased && pv.Status.LastPhaseTransitionTime != nil {
		return *pv.Status.LastPhaseTransitionTime, false
	}
	claim := p.ClaimNamed(pv)
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

var keptFirstHolders facts.KeptBy[corev1.UniqueVolumeName, []facts.Attachment]

// attachedElsewhere is an attachment of the volume to another existing node, the first by the
// node's name; nil where there is none.
func attachedElsewhere(p *facts.View, pair reconcile.VolumeNode) *facts.Attachment {
	for _, va := range keptFirstHolders.Of(p, pair.Volume, findFirstHolders) {
		if va.Node != pair.Node {
			return &va
		}
	}
	return nil
}

// findFirstHolders finds the volume's first two attachments on two nodes, by the nodes' names:
// one of them is on another node than any given one.
func findFirstHolders(p *facts.View, volume corev1.UniqueVolumeName) []facts.Attachment {
	var holders []facts.Attachment
	for _, va := range p.AttachmentsOf(volume) {
		if p.Snapshot.Node(va.Node) != nil && va.Holds() && va.Ours() {
			holders = append(holders, va)
		}
	}
	slices.SortStableFunc(holders, func(a, b facts.Attachment) int { return cmp.Compare(a.Node, b.Node) })
	holders = slices.CompactFunc(holders, func(a, b facts.Attachment) bool { return a.Node == b.Node })
	return holders[:min(2, len(holders))]
}
