package driver

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var InlineDriverMissing = check.Check{
	Code:     "VD621",
	Name:     "inline-driver-missing",
	Title:    "The driver of an inline volume is not registered on the pod's node",
	Severity: finding.Error,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.CSIDrivers, snapshot.CSINodes},
	OfDriver: true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD602", "VD613"}, Share: check.OnNode, Match: check.SameDriverOnNode},
	},
	Never: "add the driver to the CSINode: the kubelet still has no plugin to call",
	Run:   runInlineDriverMissing,
}

// runInlineDriverMissing checks volumes that only the kubelet handles: they have no claim, and
// nothing attaches them.
func runInlineDriverMissing(p *check.Run) {
	for _, node := range p.Snapshot.Nodes {
		missing := inlineMissing(p.View, node)
		for _, driver := range slices.Sorted(maps.Keys(missing)) {
			inlineDriverMissing(p, node, driver, missing[driver])
		}
	}
}

// inlineMissing are the node's inline volumes, by driver, whose driver is not registered there
// and has had its time.
func inlineMissing(p *facts.View, node *corev1.Node) map[string][]facts.PodVolume {
	missing := map[string][]facts.PodVolume{}
	for _, pod := range p.PendingOn(facts.NodeName(node)) {
		for _, v := range pod.Spec.Volumes {
			if v.CSI == nil || facts.MayUseVolumes(pod) || pod.Status.Phase == corev1.PodFailed || !facts.Referenced(pod, v.Name) ||
				facts.Registers(p.Snapshot.CSINode(facts.NodeName(node)), v.CSI.Driver) {
				continue
			}
			hadTime := p.RegisteredLongEnough(node) && !p.PluginYoung(node, v.CSI.Driver) && p.Age(facts.BoundAt(pod)) >= facts.ListsGrace
			if hadTime || p.Meant(v.CSI.Driver) != "" {
				missing[v.CSI.Driver] = append(missing[v.CSI.Driver], facts.PodVolume{Pod: pod, Name: v.Name})
			}
		}
	}
	return missing
}

func inlineDriverMissing(p *check.Run, node *corev1.Node, driver string, waiting []facts.PodVolume) {
	first, pods := waiting[0], facts.PodsOf(waiting)
	f := finding.Finding{
		Subject: p.DriverObject(driver),
		Node:    facts.NodeName(node),
		Pods:    facts.PodNames(pods),
		Since:   new(facts.BoundAt(first.Pod)),
		Evidence: []finding.Evidence{
			{Object: "pod/" + facts.PodName(first.Pod), Field: "spec.volumes", Value: fmt.Sprintf("%s: inline, driver %s", first.Name, driver)},
			p.RegisteredDrivers(node),
		},
		SelfHeals: finding.SelfHeals{Because: "the driver's node plugin has to register first; the kubelet asks again, at most 2m2s apart, and has nobody to ask before"},
	}
	where := fmt.Sprintf("Pod %s waits on node %s: driver %s is ", facts.PodName(first.Pod), node.Name, driver)
	f.Detail = finding.Clauses("it waits for its inline volume "+first.Name, facts.Alike(pods))
	meant := p.Meant(driver)
	if meant == "" {
		meant = p.Successor(driver)
	}
	switch {
	case p.Installed(driver):
		f.Message = where + "not registered there"
		f.Cause = "the driver's node plugin does not run on the node, or has not been able to register with the kubelet"
		f.Advice = fmt.Sprintf("{check} look at the driver's node plugin on %s: is its pod there (taints, node selector), Ready, and does its registrar use the "+
			"kubelet's directory?", node.Name)
		addPlugins(p.View, &f, node, driver)
	case meant != "":
		f.Message = fmt.Sprintf("%snot installed, but %s is", where, meant)
		f.Cause = "the pod names the driver otherwise than it was installed, as the names suggest"
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "csidriver/" + meant, Field: "metadata.name", Value: "is installed"})
		f.SelfHeals.Because = "no driver of that name is installed; a pod's volumes cannot be changed"
		f.Advice = fmt.Sprintf("if %s is meant, {change} correct the driver in the pod's template; the controller then makes new pods. Else {change} install the driver %s", meant, driver)
	default:
		f.Message = where + "not installed"
		f.Cause = "no node lists the driver and there is no CSIDriver of that name: it was never installed, or has been removed"
		f.Advice = "install the driver, or {change} correct the driver's name in the pod's template"
	}
	p.Report(f)
}
