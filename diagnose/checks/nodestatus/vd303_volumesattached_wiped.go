package nodestatus

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var VolumesAttachedWiped = check.Check{
	Code:     "VD303",
	Name:     "volumesattached-wiped",
	Title:    "A node was registered again, and its volumesAttached has lost everything that was attached before",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	OfDriver: true,
	Never:    "write the entries back by hand before you know that the machine is the same, or delete the Node",
	Run:      runVolumesAttachedWiped,
}

// wipedGrace is how long the controller may take to write the list of a node that has come back,
// or to which a pod has come: it writes immediately, and again after operations that time out.
const wipedGrace = facts.AttachGraceUnseen

func runVolumesAttachedWiped(p *check.Run) {
	byNode := p.AttachmentsByNode()
	for _, node := range p.Snapshot.Nodes {
		lost, pods := wiped(p.View, node, byNode[node.Name])
		if len(lost) > 0 && p.Snapshot.CSINode(facts.NodeName(node)) != nil && !anotherMachine(p.View, lost) {
			wipedList(p, node, lost, pods)
		}
	}
}

// wiped are the attachments that are older than the Node and that pods use, where the Node's
// volumesAttached has no such entry. Waiting pods come first.
func wiped(p *facts.View, node *corev1.Node, vas []facts.Attachment) (lost []facts.Attachment, pods []*corev1.Pod) {
	if !reconcile.NodeReady(node) || !p.World.Managed.Has(facts.NodeName(node)) || facts.Virtual(node) ||
		!p.Lasted(node.CreationTimestamp, wipedGrace) || p.ControllerYounger(wipedGrace) {
		return nil, nil
	}
	if !emptied(node, vas) {
		return nil, nil
	}
	for _, va := range vas {
		if !older(va, node) {
			continue
		}
		users := slices.DeleteFunc(p.World.LivePods(va.VolumeNode), func(pod *corev1.Pod) bool {
			return pod.DeletionTimestamp != nil || !p.Lasted(facts.BoundAt(pod), wipedGrace)
		})
		if p.World.Desired.Find(va.VolumeNode) != nil && len(users) > 0 {
			lost, pods = append(lost, va), append(pods, users...)
		}
	}
	facts.LongestFirst(pods)
	waitingFirst(pods)
	return lost, slices.Compact(pods)
}

func waitingFirst(pods []*corev1.Pod) {
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return facts.BoolToInt(facts.Started(a)) - facts.BoolToInt(facts.Started(b))
	})
}

// emptied reports whether the node's volumesAttached has no entry from before its registration,
// although volumes were attached then: the entries were lost with the old Node object.
// inuse-not-attached has another cause.
func emptied(node *corev1.Node, vas []facts.Attachment) bool {
	before := func(va facts.Attachment) bool { return older(va, node) }
	return slices.ContainsFunc(vas, before) &&
		!slices.ContainsFunc(vas, func(va facts.Attachment) bool { return before(va) && facts.Lists(node, va.Volume) })
}

func older(va facts.Attachment, node *corev1.Node) bool {
	return va.Holds() && va.Ours() && va.CreationTimestamp.Before(&node.CreationTimestamp)
}

// anotherMachine reports whether a driver's id for the node differs from the one when the volumes
// were attached: same-name-new-instance.
func anotherMachine(p *facts.View, vas []facts.Attachment) bool {
	return slices.ContainsFunc(vas, func(va facts.Attachment) bool {
		_, _, differ := p.OtherMachine(va.VolumeAttachment)
		return differ
	})
}

func wipedList(p *check.Run, node *corev1.Node, lost []facts.Attachment, pods []*corev1.Pod) {
	pod, pv := pods[0], p.ShortVolume(lost[0].Volume)
	for _, va := range lost {
		if p.Mounts(pod, va.Volume) {
			pv = p.ShortVolumeOf(va)
			break
		}
	}
	f := facts.AboutNode(node, finding.Finding{
		Pods:    facts.PodNames(pods),
		Since:   &node.CreationTimestamp,
		Message: fmt.Sprintf("Node %s was registered again, and its volumesAttached has lost attached volumes", node.Name),
		Detail: fmt.Sprintf("it was registered %s ago; pod %s runs with volume %s, and a kubelet that restarts now would no longer protect the mount",
			facts.Rounded(p.Age(node.CreationTimestamp)), facts.PodName(pod), pv),
		Cause: "the Node object was deleted and made again under the machine, which emptied its status; the controller counts the volumes as attached and " +
			"does not compare",
		Evidence: []finding.Evidence{
			{Object: "node/" + node.Name, Field: "metadata.creationTimestamp", Value: facts.Stamp(node.CreationTimestamp)},
			{Object: "node/" + node.Name, Field: "status.volumesAttached", Value: "lists " + facts.AttachedList(node.Status.VolumesAttached)},
		},
		SelfHeals: finding.SelfHeals{Because: "nothing rewrites the list now; the controller does when it attaches or detaches another volume there, or when " +
			"kube-controller-manager restarts"},
		Advice: fmt.Sprintf("{check} make sure that %s is still the same machine", node.Name),
		ByHand: "{restart-kube-controller-manager}, or {final} end the pods one by one, and let each return once its VolumeAttachment is gone",
	})
	for _, va := range lost {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "metadata.creationTimestamp",
			Value: fmt.Sprintf("%s, attached, for %s", facts.Stamp(va.CreationTimestamp), p.ShortVolumeOf(va))})
		if id := va.Annotations[reconcile.NodeIDAnnotation]; id == "" || id == node.Name {
			f.Cause = "the Node object was deleted and made again, which emptied its status; or another machine has taken the node's name, which the objects " +
				"do not tell where the driver knows the node by its name"
		}
	}
	if !facts.Started(pod) {
		f.Severity = finding.Error
		f.Message = fmt.Sprintf("Pod %s waits on node %s, which lost volume %s when registered again", facts.PodName(pod), node.Name, pv)
		f.Detail = fmt.Sprintf("the volume is attached, but the node was registered again %s ago, and its volumesAttached has lost the volumes attached before",
			facts.Rounded(p.Age(node.CreationTimestamp)))
		if others := facts.Pending(pods); len(others) > 1 {
			f.Detail = finding.Clauses(f.Detail, facts.Alike(others))
		}
	}
	p.Report(f)
}
