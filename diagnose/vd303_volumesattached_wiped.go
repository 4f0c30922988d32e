package diagnose

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var volumesAttachedWiped = Check{
	Code:     "VD303",
	Name:     "volumesattached-wiped",
	Title:    "A node was registered anew, and its volumesAttached has lost everything that was attached before",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes, snapshot.Leases,
	},
	Run: runVolumesAttachedWiped,
}

// wipedSettles is how long the controller may take to write the list of a node
// that has come back, or that a pod has come to: it does at once, and after an
// operation that timed out within about 4 min; the rest is margin for a second.
const wipedSettles = 10 * time.Minute

func runVolumesAttachedWiped(p *Pass) {
	byNode := p.attachmentsByNode()
	for _, node := range p.Snapshot.Nodes {
		lost, pods := p.wiped(node, byNode[node.Name])
		if len(lost) > 0 && p.Snapshot.CSINode(nodeName(node)) != nil && !p.anotherMachine(lost) {
			p.wipedList(node, lost, pods)
		}
	}
}

func (p *Pass) attachmentsByNode() map[string][]attachment {
	return p.remember().byNode.get(func() map[string][]attachment {
		count := make(map[string]int, len(p.Snapshot.Nodes))
		for _, va := range p.attachments() {
			count[string(va.Node)]++
		}
		byNode := make(map[string][]attachment, len(count))
		for node, n := range count {
			byNode[node] = make([]attachment, 0, n)
		}
		for _, va := range p.attachments() {
			byNode[string(va.Node)] = append(byNode[string(va.Node)], va)
		}
		return byNode
	})
}

// wiped are the attachments that are older than the node's object and that pods
// use, where the node's volumesAttached lists none that is older. The pods that
// wait come first.
func (p *Pass) wiped(node *corev1.Node, vas []attachment) (lost []attachment, pods []*corev1.Pod) {
	if !reconcile.NodeReady(node) || !p.World.Managed.Has(nodeName(node)) || virtual(node) ||
		p.Age(node.CreationTimestamp) < wipedSettles || p.controllerYounger(wipedSettles) {
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
			return pod.DeletionTimestamp != nil || p.Age(boundAt(pod)) < wipedSettles
		})
		if p.World.Desired[va.VolumeNode] != nil && len(users) > 0 {
			lost, pods = append(lost, va), append(pods, users...)
		}
	}
	longestFirst(pods)
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int { return boolToInt(started(a)) - boolToInt(started(b)) })
	return lost, slices.Compact(pods)
}

// emptied says that the node's volumesAttached lists nothing that was attached
// before the node was registered, though something was: it was lost with the
// old Node object, and not by the way that inuse-not-attached is about.
func emptied(node *corev1.Node, vas []attachment) bool {
	before := func(va attachment) bool { return older(va, node) }
	return slices.ContainsFunc(vas, before) &&
		!slices.ContainsFunc(vas, func(va attachment) bool { return before(va) && lists(node, va.Volume) })
}

func older(va attachment, node *corev1.Node) bool {
	return va.holds() && va.ours() && va.CreationTimestamp.Before(&node.CreationTimestamp)
}

// anotherMachine says that a driver knows the node by another id than it had
// when the volumes were attached: that is same-name-new-instance.
func (p *Pass) anotherMachine(vas []attachment) bool {
	return slices.ContainsFunc(vas, func(va attachment) bool {
		was, is := va.Annotations[machineAnnotation], p.machine(va)
		return was != "" && is != "" && was != is
	})
}

// machineAnnotation is where the attacher writes which machine it attached to.
const machineAnnotation = "csi.alpha.kubernetes.io/node-id"

// machine is the machine behind the attachment's node as its driver knows it now.
func (p *Pass) machine(va attachment) string {
	if csiNode := p.Snapshot.CSINode(va.Node); csiNode != nil {
		for _, d := range csiNode.Spec.Drivers {
			if d.Name == va.Spec.Attacher {
				return d.NodeID
			}
		}
	}
	return ""
}

func (p *Pass) wipedList(node *corev1.Node, lost []attachment, pods []*corev1.Pod) {
	pod, pv := pods[0], p.shortVolume(lost[0].Volume)
	for _, va := range lost {
		if p.mounts(pod, va.Volume) {
			pv = p.shortVolume(va.Volume)
			break
		}
	}
	f := Finding{
		Subject: Object{Kind: "Node", Name: node.Name, UID: node.UID},
		Node:    nodeName(node),
		Pods:    podNames(pods),
		Since:   &node.CreationTimestamp,
		Message: fmt.Sprintf("Node %s was registered anew %s ago, and its volumesAttached has lost the volumes attached before: pod %s runs with volume %s, "+
			"and a kubelet that restarts now would no longer protect the mount", node.Name, rounded(p.Age(node.CreationTimestamp)), podName(pod), pv),
		Cause: "the Node object was deleted and made again under the machine, which emptied its status; the controller holds the volumes for attached and " +
			"does not compare",
		Evidence: []Evidence{
			{"node/" + node.Name, "metadata.creationTimestamp", stamp(node.CreationTimestamp)},
			{"node/" + node.Name, "status.volumesAttached", "lists " + attachedList(node.Status.VolumesAttached)},
		},
		SelfHeals: SelfHeals{Because: "the controller rewrites the list only when another volume is attached to or detached from this node, or when " +
			"kube-controller-manager restarts"},
		Advice: fmt.Sprintf("make sure that %s is still the same machine; then have the kube-controller-manager leader restarted, or end the pods one by one, "+
			"each until its VolumeAttachment is gone", node.Name),
	}
	for _, va := range lost {
		f.Evidence = append(f.Evidence, Evidence{va.object(), "metadata.creationTimestamp",
			fmt.Sprintf("%s, attached, for %s", stamp(va.CreationTimestamp), p.shortVolume(va.Volume))})
		if id := va.Annotations[machineAnnotation]; id == "" || id == node.Name {
			f.Cause = "the Node object was deleted and made again, which emptied its status; or another machine has taken the node's name, which the objects " +
				"do not tell where the driver knows the node by its name"
		}
	}
	if !started(pod) {
		f.Severity = Error
		f.Message = fmt.Sprintf("Pod %s waits on node %s for volume %s: it is attached, but the node was registered anew %s ago, and its volumesAttached "+
			"has lost the volumes attached before", podName(pod), node.Name, pv, rounded(p.Age(node.CreationTimestamp)))
		if others := pending(pods); len(others) > 1 {
			f.Message += alike(others)
		}
	}
	p.Report(f)
}
