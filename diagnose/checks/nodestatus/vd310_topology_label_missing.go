package nodestatus

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var TopologyLabelMissing = check.Check{
	Code:     "VD310",
	Name:     "topology-label-missing",
	Title:    "A node lacks a topology label that its driver registered with",
	Severity: finding.Warning,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.CSINodes},
	Never:    "guess the label: a wrong zone sends pods to where their disks are not",
	Run:      runTopologyLabelMissing,
}

func runTopologyLabelMissing(p *check.Run) {
	for node, csiNode := range p.RegisteredNodes() {
		for _, d := range csiNode.Spec.Drivers {
			var missing []string
			for _, key := range d.TopologyKeys {
				if _, ok := node.Labels[key]; !ok {
					missing = append(missing, key)
				}
			}
			if len(missing) > 0 && !p.PluginYoung(node, d.Name) {
				topologyLabelMissing(p, node, d.Name, missing)
			}
		}
	}
}

func topologyLabelMissing(p *check.Run, node *corev1.Node, driver string, missing []string) {
	f := finding.Finding{
		Subject: finding.Object{Kind: "CSIDriver", Name: driver},
		Node:    facts.NodeName(node),
		Message: fmt.Sprintf("Node %s lacks the label %s, with which driver %s registered there", node.Name, missing[0], driver),
		Detail:  "pods with volumes that are bound to a value of it are not scheduled to the node, and the kubelet refuses to mount them",
		Cause:   "the label was taken off or the Node object was recreated by something that does not know it; the kubelet wrote it when the driver registered",
		Evidence: []finding.Evidence{
			{Object: "csinode/" + node.Name, Field: "spec.drivers[" + driver + "].topologyKeys", Value: fmt.Sprintf("has %v", missing)},
			{Object: "node/" + node.Name, Field: "metadata.labels", Value: fmt.Sprintf("lacks %v", missing)},
		},
		SelfHeals: finding.SelfHeals{Because: "the kubelet writes the label only as the driver registers; a provisioner that picks this node for a new volume fails until then"},
	}
	f.Advice = step.RestartNodePlugin.Of(driver) + ": its successor registers again, and the kubelet writes the label"
	p.Report(f)
}
