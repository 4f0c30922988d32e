package driver

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var CsiNodeDriverMissing = check.Check{
	Code:     "VD602",
	Name:     "csinode-driver-missing",
	Title:    "A pod needs a CSI driver that is not registered on its node",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes),
	OfDriver: true,
	Yields: []check.Yield{
		{To: "VD613", Key: check.OfDriverOnNode},
	},
	Follows: []check.Relation{
		{From: []finding.Code{"VD110"}, Share: check.OnNode, Match: evictsPlugin},
		{From: []finding.Code{"VD411"}, Share: check.OnNode, Match: keepsPlugin},
	},
	Never: "add the driver to the CSINode: the kubelet still has no plugin to call",
	Run:   runCSINodeDriverMissing,
}

func runCSINodeDriverMissing(p *check.Run) {
	for _, node := range p.Snapshot.Nodes {
		if !p.RegisteredLongEnough(node) {
			continue
		}
		needs := unregistered(p.View, node)
		for _, driver := range slices.Sorted(maps.Keys(needs)) {
			waiting := slices.DeleteFunc(needs[driver], inline) // inline-driver-missing reports those
			if len(waiting) > 0 && p.Installed(driver) && !p.PluginYoung(node, driver) {
				driverMissing(p, node, driver, waiting)
			}
		}
	}
}

// inline reports whether the pod itself defines the volume.
func inline(v facts.PodVolume) bool {
	return slices.ContainsFunc(v.Pod.Spec.Volumes, func(own corev1.Volume) bool { return own.Name == v.Name && own.CSI != nil })
}

func driverMissing(p *check.Run, node *corev1.Node, driver string, waiting []facts.PodVolume) {
	first, pods := waiting[0], facts.PodsOf(waiting)
	f := finding.Finding{
		Subject:  p.DriverObject(driver),
		Node:     facts.NodeName(node),
		Pods:     facts.PodNames(pods),
		Since:    new(facts.BoundAt(first.Pod)),
		Message:  fmt.Sprintf("Pod %s waits on node %s: driver %s is not registered there", facts.PodName(first.Pod), node.Name, driver),
		Detail:   finding.Clauses("it waits for volume "+first.Name, facts.Alike(pods)),
		Cause:    "the driver's node plugin does not run on the node, or has not been able to register with the kubelet",
		Evidence: []finding.Evidence{p.RegisteredDrivers(node)},
		SelfHeals: finding.SelfHeals{Because: "the node plugin has to register first; once it has, the attach follows within about 5 min; " +
			"until then the attacher does not know the node's id, and the kubelet has no plugin to call"},
		Advice: fmt.Sprintf("{check} look at the driver's node plugin on %s: is its pod there (taints, node selector), Ready, and does its registrar use the "+
			"kubelet's directory?", node.Name),
	}
	if !p.AttachRequired(driver) || p.Lists(node, first.Volume) {
		f.SelfHeals.Because = "the node plugin has to register first; once it has, the mount follows within about 2 min; until then the kubelet has no plugin to call"
	}
	if facts.TakesNoPlugin(node) {
		f.Cause = "a Fargate node runs no pod of a DaemonSet, and so no node plugin"
		f.SelfHeals.Because = "no node plugin can register there"
		f.Advice = "{change} take the pod out of the Fargate profile that selects it (its namespace and labels); {delete-pod}, so that it starts on a node with the driver's node plugin"
		p.Report(f)
		return
	}
	if !addPlugins(p.View, &f, node, driver) {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "pods", Value: "none mounts the directory plugins/" + driver})
	}
	p.Report(f)
}

// addPlugins adds the driver's node plugins on the node, and how they fail. Where there is none it adds
// a look at all pods of the node, and returns false.
func addPlugins(p *facts.View, f *finding.Finding, node *corev1.Node, driver string) bool {
	plugins := p.NodePlugins(node, "/plugins/"+driver)
	for _, plugin := range plugins {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(plugin), Field: "status", Value: facts.PluginState(plugin)})
	}
	if len(plugins) == 0 {
		f.AdviceCommands = []string{safetext.Kubectl("get", "pods", "-A", "--field-selector=spec.nodeName="+node.Name, "-o", "wide")}
		return false
	}
	pluginFails(f, driver, plugins)
	return true
}

// pluginFails adds how the driver's node plugins on the finding's node fail. A plugin that
// crashes is named before one that is not Ready, and a Ready one last.
func pluginFails(f *finding.Finding, driver string, plugins []*corev1.Pod) {
	crashes := slices.IndexFunc(plugins, func(pod *corev1.Pod) bool { return crashLoops(pod) != "" })
	starts := slices.IndexFunc(plugins, func(pod *corev1.Pod) bool { return !facts.Ready(pod) })
	plugin := plugins[max(0, cmp.Or(crashes+1, starts+1)-1)]
	f.Cause = fmt.Sprintf("the driver's node plugin there, pod %s (%s), has not registered with the kubelet", facts.PodName(plugin), facts.PluginState(plugin))
	if crashes < 0 && starts >= 0 {
		facts.SeeWhyNotReady(f, plugin)
	} else {
		readLog(f, driver, plugin)
	}
	refused(f, plugins)
}

// keepsPlugin reports whether the driver's own node plugin waits for the cause.
func keepsPlugin(p *facts.View, cause, driver finding.Finding) bool {
	node := p.Snapshot.Node(driver.Node)
	return node != nil && slices.ContainsFunc(p.NodePlugins(node, "/plugins/"+driver.Subject.Name), func(plugin *corev1.Pod) bool {
		return cause.Names(facts.PodName(plugin))
	})
}

// evictsPlugin reports whether the taint keeps the node plugin off the node. A plugin that is
// there fails for a reason of its own.
func evictsPlugin(p *facts.View, taint, driver finding.Finding) bool {
	node := p.Snapshot.Node(taint.Node)
	return node != nil && taint.Node == driver.Node && len(p.NodePlugins(node, "/plugins/"+driver.Subject.Name)) == 0
}
