package driver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var CsiNodeOfFormerNode = check.Check{
	Code:     "VD618",
	Name:     "csinode-of-former-node",
	Title:    "A CSINode belongs to a Node object of before, and may be collected with its drivers",
	Severity: finding.Warning,
	Needs:    []snapshot.Kind{snapshot.Nodes, snapshot.CSINodes},
	Never:    "edit the owner reference: the ids may still be the old machine's",
	Run:      runCSINodeOfFormerNode,
}

// ownsCSINode is the first release whose kubelet recreates a CSINode that an earlier Node object
// owns (kubernetes pull request 131098). An older kubelet asks for the Node each time, and leaves
// the rest to the garbage collector.
const ownsCSINode facts.KubeletRelease = 35

// runCSINodeOfFormerNode waits for RolloutGrace: the garbage collector comes within minutes of
// the old Node's end, and the kubelet once it has started.
func runCSINodeOfFormerNode(p *check.Run) {
	for _, csiNode := range p.Snapshot.CSINodes {
		node := p.Snapshot.Node(types.NodeName(csiNode.Name))
		owner := ownerNode(csiNode)
		if node == nil || facts.TakesNoPlugin(node) || node.UID == "" || owner == "" || owner == node.UID || csiNode.DeletionTimestamp != nil ||
			!reconcile.NodeReady(node) || p.Age(facts.Latest(node.CreationTimestamp, facts.ReadyCondition(node).LastTransitionTime)) < facts.RolloutGrace {
			continue
		}
		formerNode(p, node, csiNode, owner)
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

func formerNode(p *check.Run, node *corev1.Node, csiNode *storagev1.CSINode, owner types.UID) {
	kubelet := facts.ParseKubelet(node.Status.NodeInfo.KubeletVersion)
	heals := "the garbage collector deletes the CSINode, whose owner is gone; the drivers' entries go with it, and come back only as each driver registers again"
	advice := fmt.Sprintf("{restart-kubelet %s}: each driver registers again", node.Name)
	if kubelet >= ownsCSINode {
		heals = fmt.Sprintf("it lasts until the kubelet is restarted; a kubelet of 1.%d goes by the Node object that was there when it started: it recreates the CSINode for the former Node, "+
			"and the garbage collector deletes that again", kubelet)
		advice = fmt.Sprintf("{restart-kubelet %s}: it recreates the CSINode, and each driver registers again", node.Name)
	}
	p.Report(finding.Finding{
		Subject: finding.Object{Kind: "CSINode", Name: csiNode.Name, UID: csiNode.UID},
		Node:    facts.NodeName(node),
		Since:   &node.CreationTimestamp,
		Message: fmt.Sprintf("The CSINode of node %s belongs to an earlier node of that name", node.Name),
		Detail:  "the ids and limits in it may be those of another machine, and it may be collected together with the earlier Node object",
		Cause:   "the Node was deleted and registered again while its kubelet ran on, or the collection of the old one has not come to an end",
		Evidence: []finding.Evidence{
			{Object: "csinode/" + csiNode.Name, Field: "metadata.ownerReferences", Value: "Node with uid " + string(owner)},
			{Object: "node/" + node.Name, Field: "metadata.uid", Value: string(node.UID)},
			p.RegisteredDrivers(node),
		},
		SelfHeals: finding.SelfHeals{Because: heals},
		Advice:    advice + ". Check that the ids in the CSINode are those of the machine",
	})
}
