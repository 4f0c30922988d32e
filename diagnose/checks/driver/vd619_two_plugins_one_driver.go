package driver

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var TwoPluginsOneDriver = check.Check{
	Code:     "VD619",
	Name:     "two-plugins-one-driver",
	Title:    "Two node plugins on one node register the same driver",
	Severity: finding.Warning,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.CSIDrivers, snapshot.CSINodes},
	Never:    "remove both while pods use their volumes: nothing could unmount them",
	Run:      runTwoPluginsOneDriver,
}

func runTwoPluginsOneDriver(p *check.Run) {
	all := p.Plugins()
	for _, driver := range slices.Sorted(maps.Keys(all)) {
		if !p.Installed(driver) {
			continue // the directory has another name than a driver
		}
		var first []*corev1.Pod
		nodes := 0
		for _, node := range p.Snapshot.Nodes {
			if rivals := rivals(p.View, all[driver][facts.NodeName(node)]); len(rivals) > 1 {
				nodes++
				if first == nil {
					first = rivals
				}
			}
		}
		if nodes > 0 {
			twoPlugins(p, driver, first, nodes)
		}
	}
}

// rivals are pods of different DaemonSets that both bring a registrar for the driver, for longer
// than one replaces the other. Two pods of one DaemonSet overlap only while it is updated.
func rivals(p *facts.View, pods []*corev1.Pod) []*corev1.Pod {
	var rivals []*corev1.Pod
	seen := map[types.UID]bool{}
	for _, pod := range pods {
		if !facts.Registrar(pod) || pod.DeletionTimestamp != nil || p.Age(pod.CreationTimestamp) < facts.RolloutGrace || seen[facts.DaemonSet(pod)] ||
			!slices.ContainsFunc(pod.Spec.Containers, registrarContainer) {
			continue
		}
		seen[facts.DaemonSet(pod)] = true
		rivals = append(rivals, pod)
	}
	return rivals
}

func registrarContainer(c corev1.Container) bool {
	return strings.Contains(c.Name, "driver-registrar") || strings.Contains(c.Image, "driver-registrar")
}

func twoPlugins(p *check.Run, driver string, rivals []*corev1.Pod, nodes int) {
	node := facts.NodeOf(rivals[0])
	others := ""
	if nodes > 1 {
		others = fmt.Sprintf("so it is on %d other nodes", nodes-1)
	}
	p.Report(finding.Finding{
		Subject: p.DriverObject(driver),
		Node:    node,
		Message: fmt.Sprintf("Pods %s and %s both register driver %s on node %s", facts.PodName(rivals[0]), facts.PodName(rivals[1]), driver, node),
		Detail:  finding.Clauses(others, "the kubelet takes one of them, and forgets the driver when that one goes"),
		Cause: "the driver is installed twice, by two releases or two ways of installing it; the kubelet takes one of them and refuses the other, or takes each " +
			"in turn",
		Evidence: pluginEvidence(rivals),
		SelfHeals: finding.SelfHeals{Because: "the kubelet deregisters by the driver's name alone; up to 1.35 the kubelet does not come back to the socket that stays until that is " +
			"made again; from 1.36 on it does, at most 2m2s later"},
		Advice: "{check} find out which of the two DaemonSets belongs to the driver's controller, and {final} remove the other one; " +
			step.RestartNodePlugin.Of(driver+"@*") + " (of the one that stays), node by node, so that it registers again",
	})
}
