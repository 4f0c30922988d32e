package diagnose

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var orphanBackendAttachment = Check{
	Code:     "VD404",
	Name:     "orphan-backend-attachment",
	Title:    "The storage system has a volume attached to a node for which there is no VolumeAttachment",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes,
	},
	Run: runOrphanBackendAttachment,
}

const (
	// orphanSettles is how long an attach must have been failing: by then the
	// attacher has tried several times at its longest back-off of 5 min.
	orphanSettles = 15 * time.Minute
	// detachMayTake is how long after the other node's list was last written a
	// refusal may still be due to a detach that was under way. One that takes
	// longer is a failure of its own.
	detachMayTake = 10 * time.Minute
)

func runOrphanBackendAttachment(p *Pass) {
	for _, va := range p.attachments() {
		failure := va.Status.AttachError
		if va.Status.Attached || va.DeletionTimestamp != nil || failure == nil || !va.ours() || !heldElsewhere(failure.Message) ||
			p.Age(va.CreationTimestamp) < orphanSettles || p.Age(failure.Time) > attacherRetries {
			continue
		}
		pods := p.waitingHere(va.VolumeNode)
		holder := p.namedNode(va, failure.Message)
		if len(pods) == 0 || holder == nil || !p.unrecorded(va, holder) {
			continue
		}
		// The refusal may be older than the end of an ordinary detach there.
		if _, written := volumesAttachedWriter(holder); written.IsZero() || failure.Time.Sub(written.Time) >= detachMayTake {
			p.orphan(va, holder, pods)
		}
	}
}

// heldElsewhere says that the driver, in one of many wordings, refuses because
// something else has the volume.
func heldElsewhere(message string) bool {
	return containsAny(message, "already attached", "currently attached", "already being used by", "in_use_by_another", "in use by another",
		"is attached to", "already in use", "attached to another", "attached to a different")
}

// namedNode is the one other node that the message names, by its name or by
// what its driver or its cloud calls it; nil where there is none or several.
func (p *Pass) namedNode(va attachment, message string) *corev1.Node {
	ids := p.remember().machineIDs.get(p.findMachineIDs)
	var named *corev1.Node
	for word := range tokens(message, ids.longest) {
		for _, id := range ids.nodes[word] {
			if id.driver != "" && id.driver != va.Spec.Attacher || nodeName(id.node) == va.Node || id.node == named {
				continue
			}
			if named != nil {
				return nil
			}
			named = id.node
		}
	}
	return named
}

// machineIDs are what the nodes are called.
type machineIDs struct {
	nodes   map[string][]calledNode
	longest int
}

// calledNode is a node that is called so by one driver, or whatever the driver
// where that is empty.
type calledNode struct {
	driver string
	node   *corev1.Node
}

func (p *Pass) findMachineIDs() machineIDs {
	ids := machineIDs{nodes: make(map[string][]calledNode, 2*len(p.Snapshot.Nodes))}
	for _, node := range p.Snapshot.Nodes {
		add := func(id, driver string) {
			ids.nodes[id] = append(ids.nodes[id], calledNode{driver, node})
			ids.longest = max(ids.longest, len(id))
		}
		add(node.Name, "")
		add(lastPart(node.Spec.ProviderID), "")
		if csiNode := p.Snapshot.CSINode(nodeName(node)); csiNode != nil {
			for _, d := range csiNode.Spec.Drivers {
				add(d.NodeID, d.Name)
				add(lastPart(d.NodeID), d.Name)
			}
		}
	}
	return ids
}

// unrecorded says that nothing in the cluster tells of the volume on the node.
// A volume that the node still uses was detached under a mount, which is worse.
func (p *Pass) unrecorded(va attachment, node *corev1.Node) bool {
	pair := reconcile.VolumeNode{Volume: va.Volume, Node: nodeName(node)}
	return len(p.World.Attachments(pair)) == 0 && p.Snapshot.VolumeAttachment(attachmentName(pair)) == nil &&
		!inUse(node, va.Volume) && !lists(node, va.Volume) && len(p.World.LivePods(pair)) == 0
}

func (p *Pass) orphan(va attachment, holder *corev1.Node, pods []*corev1.Pod) {
	pv, failure := p.shortVolume(va.Volume), va.Status.AttachError
	since := va.CreationTimestamp
	p.Report(Finding{
		Subject:          podObject(pods[0]),
		Volume:           va.Volume,
		Node:             va.Node,
		Holder:           nodeName(holder),
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Pods:             podNames(pods),
		Since:            &since,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, which the driver says is attached to node %s, where the cluster has no record of it: %q%s",
			podName(pods[0]), va.Node, pv, holder.Name, failure.Message, alike(pods)),
		Cause: "the VolumeAttachment of that node went without a detach: its finalizer was taken off, or it was deleted before the attacher had put one on; " +
			"or the volume was attached past the cluster",
		Evidence: []Evidence{
			{va.object(), "status.attachError", fmt.Sprintf("%s at %s", failure.Message, stamp(failure.Time))},
			{"node/" + holder.Name, "volumeattachments", "none for the volume"},
			{"node/" + holder.Name, "status.volumesInUse", "lacks it; lists " + list(holder.Status.VolumesInUse)},
			{"node/" + holder.Name, "status.volumesAttached", "lacks it; lists " + attachedList(holder.Status.VolumesAttached)},
		},
		SelfHeals: SelfHeals{Because: "no object asks the driver to detach the volume there; the attacher repeats the attach, at most 5 min apart, and is refused"},
		Advice: fmt.Sprintf("see at the storage system that the volume is attached to node %s, and on that node that nothing has it mounted; "+
			"then detach it at the storage system. The attach follows within about 7 min by itself", holder.Name),
	})
}
