package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var topologyLabelMissing = Check{
	Code:     "VD310",
	Name:     "topology-label-missing",
	Title:    "A node lacks a topology label that its driver registered with",
	Severity: Warning,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.CSINodes},
	Run:      runTopologyLabelMissing,
}

func runTopologyLabelMissing(p *Pass) {
	for _, node := range p.Snapshot.Nodes {
		csiNode := p.Snapshot.CSINode(nodeName(node))
		if csiNode == nil || !p.settled(node) {
			continue
		}
		for _, d := range csiNode.Spec.Drivers {
			var missing []string
			for _, key := range d.TopologyKeys {
				if _, ok := node.Labels[key]; !ok {
					missing = append(missing, key)
				}
			}
			if len(missing) > 0 && !p.pluginYoung(node, d.Name) {
				p.topologyLabelMissing(node, d.Name, missing)
			}
		}
	}
}

func (p *Pass) topologyLabelMissing(node *corev1.Node, driver string, missing []string) {
	p.Report(Finding{
		Subject: Object{Kind: "CSIDriver", Name: driver},
		Node:    nodeName(node),
		Message: fmt.Sprintf("Node %s lacks the label %s, with which driver %s registered there: pods with volumes that are bound to a value of it are not "+
			"scheduled to the node, and the kubelet refuses to mount them", node.Name, missing[0], driver),
		Cause: "the label was taken off or the Node object was made anew by something that does not know it; the kubelet wrote it when the driver registered",
		Evidence: []Evidence{
			{"csinode/" + node.Name, "spec.drivers[" + driver + "].topologyKeys", fmt.Sprintf("has %v", missing)},
			{"node/" + node.Name, "metadata.labels", fmt.Sprintf("lacks %v", missing)},
		},
		SelfHeals: SelfHeals{Because: "the kubelet writes the label only as the driver registers; a provisioner that picks this node for a new volume fails until then"},
		Advice: fmt.Sprintf("delete the driver's node plugin pod on %s, so that it registers anew and the kubelet writes the label; do not guess its value by hand: "+
			"a wrong zone sends pods to where their disks are not", node.Name),
	})
}
