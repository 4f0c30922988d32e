package nodestatus

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var NodeIDDiffers = check.Check{
	Code:     "VD309",
	Name:     "node-id-differs",
	Title:    "A node's annotation and its CSINode disagree on a driver's id for it",
	Severity: finding.Info,
	Breaks:   check.Holds,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.CSIDrivers, snapshot.CSINodes},
	Follows: []check.Relation{
		{From: []finding.Code{"VD602", "VD613"}, Share: check.OnNode, Match: leftID},
		{From: []finding.Code{"VD601"}, Match: leftID},
	},
	Never: "edit the annotation or the CSINode by hand: the kubelet writes both",
	Run:   runNodeIDDiffers,
}

func runNodeIDDiffers(p *check.Run) {
	for _, node := range p.Snapshot.Nodes {
		csiNode := p.Snapshot.CSINode(facts.NodeName(node))
		ids, ok := facts.NodeIDs(node)
		if csiNode == nil || same(ids, csiNode.Spec.Drivers) || !ok && !madeAnew(p.View, node, csiNode) || !p.RegisteredLongEnough(node) {
			continue
		}
		nodeIDDiffers(p, node, csiNode, ids)
	}
}

// leftID reports whether the annotation and the CSINode differ by the id of the cause's driver, which is
// not registered, and else only by ids of drivers whose plugins are on the node and not registered: each
// of those has a finding of its own.
func leftID(p *facts.View, cause, effect finding.Finding) bool {
	node, csiNode, driver := p.Snapshot.Node(effect.Node), p.Snapshot.CSINode(effect.Node), p.DriverOf(cause)
	ids, _ := facts.NodeIDs(node)
	others := maps.Clone(ids)
	maps.DeleteFunc(others, func(other, _ string) bool {
		return other == driver || !facts.Registers(csiNode, other) && len(p.Plugins()[other][effect.Node]) > 0
	})
	return ids[driver] != "" && same(others, csiNode.Spec.Drivers)
}

// same reports whether the ids are those of the drivers, and of no others.
func same(ids map[string]string, drivers []storagev1.CSINodeDriver) bool {
	for driver := range ids {
		if !slices.ContainsFunc(drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver }) {
			return false
		}
	}
	return !slices.ContainsFunc(drivers, func(d storagev1.CSINodeDriver) bool { return ids[d.Name] != d.NodeID })
}

func nodeIDDiffers(p *check.Run, node *corev1.Node, csiNode *storagev1.CSINode, ids map[string]string) {
	annotation := finding.Evidence{Object: "node/" + node.Name, Field: "metadata.annotations[" + reconcile.NodeIDsAnnotation + "]", Value: fmt.Sprintf("%q", node.Annotations[reconcile.NodeIDsAnnotation])}
	f := facts.AboutNode(node, finding.Finding{
		Evidence:  []finding.Evidence{annotation},
		SelfHeals: finding.SelfHeals{Because: "the driver has to register again; the kubelet writes both only as a driver registers: at the plugin's next start, or the kubelet's; nobody compares them in between"},
	})
	listed, named := map[string]string{}, ""
	for _, d := range csiNode.Spec.Drivers {
		listed[d.Name] = d.NodeID
		id, there := ids[d.Name]
		switch {
		case id == d.NodeID || p.PluginYoung(node, d.Name):
			continue
		case there:
			if f.Severity != finding.Warning { // the first driver with two ids is named
				f.Severity, named = finding.Warning, d.Name
				f.Message = fmt.Sprintf("Driver %s has two ids for node %s", d.Name, node.Name)
				f.Detail = fmt.Sprintf("it is %q in the CSINode and %q in the node's annotation; the attacher goes by the former, and one of them is another "+
					"machine's or stale", d.NodeID, id)
				f.Cause = "a registration stopped half-way, the machine behind the node was replaced, or somebody edited one of the two"
			}
		case f.Message == "":
			named = d.Name
			f.Message = fmt.Sprintf("Node %s lacks the annotation with its id of driver %s", node.Name, d.Name)
			f.Detail = "its CSINode has the id"
			f.Cause = "the Node object was recreated while its kubelet ran on; attaching works, and programs that read the annotation do not find the node"
		}
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "csinode/" + node.Name, Field: "spec.drivers[" + d.Name + "].nodeID", Value: fmt.Sprintf("%q", d.NodeID)})
	}
	for _, driver := range slices.Sorted(maps.Keys(ids)) {
		if _, ok := listed[driver]; ok || p.PluginYoung(node, driver) {
			continue
		}
		if f.Message == "" {
			named = driver
			f.Message = fmt.Sprintf("The CSINode of node %s lacks driver %s, though the Node has its id", node.Name, driver)
			f.Detail = "the node's annotation has the id that the driver gave it"
			f.Cause = "a registration stopped half-way: the kubelet wrote the Node and could not write the CSINode, or took the driver off only one of the two"
		}
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "csinode/" + node.Name, Field: "spec.drivers", Value: "lacks " + driver})
	}
	if f.Message != "" {
		f.Advice = step.RestartNodePlugin.Of(named) + ": its successor registers again"
		if !p.Installed(named) || p.ServedByDaemonSet(named) && len(p.NodePlugins(node, "/plugins/"+named)) == 0 {
			f.Advice = fmt.Sprintf("{check} see whether a node plugin of %s is meant to run on %s: none runs there, and when one starts the kubelet writes both", named, node.Name)
		}
		p.Report(f)
	}
}

var keptAnnotated facts.Kept[sets.Set[string]]

// madeAnew reports whether the Node was recreated under its CSINode, which is otherwise the
// younger. Another node must have the annotation for one of the same drivers: else it may be
// missing from the file.
func madeAnew(p *facts.View, node *corev1.Node, csiNode *storagev1.CSINode) bool {
	return csiNode.CreationTimestamp.Before(&node.CreationTimestamp) && slices.ContainsFunc(csiNode.Spec.Drivers, func(d storagev1.CSINodeDriver) bool {
		return keptAnnotated.Of(p, findAnnotated).Has(d.Name)
	})
}

// findAnnotated finds the drivers that have an id in any node's annotation.
func findAnnotated(p *facts.View) sets.Set[string] {
	drivers := sets.New[string]()
	for _, node := range p.Snapshot.Nodes {
		ids, _ := facts.NodeIDs(node)
		for driver, id := range ids {
			if id != "" {
				drivers.Insert(driver)
			}
		}
	}
	return drivers
}
