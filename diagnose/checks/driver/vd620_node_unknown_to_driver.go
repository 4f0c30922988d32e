package driver

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var NodeUnknownToDriver = check.Check{
	Code:     "VD620",
	Name:     "node-unknown-to-driver",
	Title:    "A driver does not know a node that is Ready, and attaches nothing to it",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	OfDriver: true,
	Never:    "delete the Node of a machine that runs: mounted volumes are detached",
	Run:      runNodeUnknownToDriver,
}

func runNodeUnknownToDriver(p *check.Run) {
	for _, driver := range p.Attachers() {
		byNode := map[string][]facts.RefusedAttach{}
		for _, t := range p.RefusedAttaches(driver) {
			if lives(p.View, t, driver) && facts.Means(driver, t.Failure.Message, driverwords.NodeUnknown, driverwords.MachineGone) {
				byNode[t.Spec.NodeName] = append(byNode[t.Spec.NodeName], t)
			}
		}
		for _, node := range p.Snapshot.Nodes {
			if tasks := byNode[node.Name]; len(tasks) > 0 {
				nodeUnknown(p, node, driver, tasks)
			}
		}
	}
}

// lives reports whether the node is Ready, its kubelet renews its lease, if any, and it has the
// driver.
func lives(p *facts.View, t facts.RefusedAttach, driver string) bool {
	node := p.Snapshot.Node(t.Pair.Node)
	lease := p.Snapshot.Lease(corev1.NamespaceNodeLease, t.Spec.NodeName)
	return reconcile.NodeReady(node) && facts.Registers(p.Snapshot.CSINode(t.Pair.Node), driver) &&
		(lease == nil || lease.Spec.RenewTime == nil || p.Age(facts.Renewed(lease)) < facts.NodeMonitorGraceBefore132)
}

func nodeUnknown(p *check.Run, node *corev1.Node, driver string, tasks []facts.RefusedAttach) {
	var pods []*corev1.Pod
	var list []facts.Task
	for _, t := range tasks {
		pods, list = append(pods, t.Pods...), append(list, t.Task)
	}
	pods = facts.LongestFirst(facts.EachOnce(pods))
	lead := tasks[slices.IndexFunc(tasks, func(t facts.RefusedAttach) bool { return slices.Contains(t.Pods, pods[0]) })]
	entry, _ := facts.DriverSays(driver, lead.Failure.Message)
	entry = p.Settled(entry, facts.Said{Driver: driver, Message: lead.Failure.Message, Node: facts.NodeName(node)})
	nodeID, _ := p.NodeID(facts.NodeName(node), driver)
	f := finding.Finding{
		Subject:          p.DriverObject(driver),
		Node:             facts.NodeName(node),
		VolumeAttachment: lead.Name,
		Pods:             facts.PodNames(pods),
		Since:            &lead.Waits,
		Actor:            "the " + string(entry.Actor),
		Message:          fmt.Sprintf("Pod %s waits on node %s, which driver %s does not know", facts.PodName(pods[0]), node.Name, driver),
		Detail:           finding.Clauses(fmt.Sprintf("it waits for volume %s; the node is Ready; the %s has to act", p.TaskVolume(lead.Task), entry.Actor), facts.Alike(pods)),
		Cause: "the driver's controller, or its storage system, has lost the node's entry or never got it; or the node's id in the CSINode is not the one " +
			"that the storage system has",
		Evidence: append([]finding.Evidence{
			{Object: "node/" + node.Name, Field: "status.conditions[Ready]", Value: facts.ReadyText(node)},
			{Object: "csinode/" + node.Name, Field: "spec.drivers[" + driver + "].nodeID", Value: nodeID},
		}, taskEvidence(list)...),
		SelfHeals: finding.SelfHeals{Because: "the driver does not know the node; the attacher asks the driver again, at most 5 min apart, and gets the same answer"},
		Advice:    facts.Clause(entry.Helps),
		KnownFrom: facts.KnownFrom(entry, p.LookUps(facts.Said{Driver: driver, Message: lead.Failure.Message, Node: facts.NodeName(node)})...),
	}
	if id := node.Spec.ProviderID; id != "" {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "spec.providerID", Value: id})
	}
	p.Report(f)
}
