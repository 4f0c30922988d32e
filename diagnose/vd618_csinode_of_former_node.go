package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var csiNodeOfFormerNode = Check{
	Code:     "VD618",
	Name:     "csinode-of-former-node",
	Title:    "A CSINode belongs to a Node object of before, and may be collected with its drivers",
	Severity: Warning,
	Needs:    []snapshot.Kind{snapshot.Nodes, snapshot.CSINodes},
	Run:      runCSINodeOfFormerNode,
}

// ownsCSINode: a kubelet makes the CSINode anew where another Node object owns
// it (kubernetes pull request 131098). An older one leaves that to the garbage
// collector, which may come after the drivers have registered.
const ownsCSINode kubeletRelease = 34

// runCSINodeOfFormerNode waits for rolloutSettles: the garbage collector comes
// within minutes of the old Node's end, and the kubelet once it has started.
func runCSINodeOfFormerNode(p *Pass) {
	for _, csiNode := range p.Snapshot.CSINodes {
		node := p.Snapshot.Node(types.NodeName(csiNode.Name))
		owner := ownerNode(csiNode)
		if node == nil || node.UID == "" || owner == "" || owner == node.UID || csiNode.DeletionTimestamp != nil ||
			!reconcile.NodeReady(node) || p.Age(latest(node.CreationTimestamp, readyCondition(node).LastTransitionTime)) < rolloutSettles {
			continue
		}
		p.formerNode(node, csiNode, owner)
	}
}

func ownerNode(csiNode *storagev1.CSINode) types.UID {
	for _, o := range csiNode.OwnerReferences {
		if o.Kind == "Node" {
			return o.UID
		}
	}
	return ""
}

func (p *Pass) formerNode(node *corev1.Node, csiNode *storagev1.CSINode, owner types.UID) {
	since := node.CreationTimestamp
	kubelet := parseKubelet(node.Status.NodeInfo.KubeletVersion)
	heals := "the garbage collector deletes the CSINode, whose owner is gone, and the drivers' entries with it; they come back only as each driver registers anew"
	if kubelet >= ownsCSINode {
		heals = fmt.Sprintf("a kubelet of 1.%d makes the CSINode anew the next time that it registers a driver; until then the garbage collector may take it", kubelet)
	}
	p.Report(Finding{
		Subject: Object{Kind: "CSINode", Name: csiNode.Name, UID: csiNode.UID},
		Node:    nodeName(node),
		Since:   &since,
		Message: fmt.Sprintf("The CSINode of node %s belongs to an earlier Node object of that name: the ids and limits in it may be those of another machine, "+
			"and it may be collected together with them", node.Name),
		Cause: "the Node was deleted and registered anew while its kubelet ran on, or the collection of the old one has not come to an end",
		Evidence: []Evidence{
			{"csinode/" + csiNode.Name, "metadata.ownerReferences", "Node with uid " + string(owner)},
			{"node/" + node.Name, "metadata.uid", string(node.UID)},
			p.registeredDrivers(node),
		},
		SelfHeals: SelfHeals{Because: heals},
		Advice: fmt.Sprintf("restart the kubelet on %s, or delete the drivers' node plugin pods there one after the other: each registers anew. See that the ids in "+
			"the CSINode are those of the machine", node.Name),
	})
}
