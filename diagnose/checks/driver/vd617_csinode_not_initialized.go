package driver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var CsiNodeNotInitialized = check.Check{
	Code:     "VD617",
	Name:     "csinode-not-initialized",
	Title:    "A node does not become Ready because its kubelet cannot make its CSINode",
	Severity: finding.Warning,
	Needs:    []snapshot.Kind{snapshot.Nodes, snapshot.CSINodes},
	Never:    "create the CSINode by hand with drivers in it: the kubelet creates an empty one itself",
	Run:      runCSINodeNotInitialized,
}

// runCSINodeNotInitialized reads the condition that the kubelet writes while it tries. The
// kubelet ends after about 140 s of failures and restarts: RegistrationGrace covers its first
// life.
func runCSINodeNotInitialized(p *check.Run) {
	for _, node := range p.Snapshot.Nodes {
		c := facts.ReadyCondition(node)
		if c == nil || c.Status != corev1.ConditionFalse || !facts.ContainsAny(c.Message, "CSINode is not yet initialized", "failed to initialize CSINode") ||
			p.Age(facts.Latest(c.LastTransitionTime, node.CreationTimestamp)) < facts.RegistrationGrace {
			continue
		}
		since := c.LastTransitionTime
		p.Report(facts.AboutNode(node, finding.Finding{
			Since:   &since,
			Message: fmt.Sprintf("Node %s is not Ready because its kubelet cannot make or update its CSINode", node.Name),
			Detail:  fmt.Sprintf("it has not been Ready for %s", facts.Rounded(p.Age(since))),
			Cause: "the kubelet may not read or write CSINodes (the node authorizer, an admission webhook), cannot reach the API server as it should, or " +
				"finds a CSINode of another Node object",
			Evidence: []finding.Evidence{{Object: "node/" + node.Name, Field: "status.conditions[Ready]", Value: fmt.Sprintf("%s: %s", c.Reason, c.Message)}, p.RegisteredDrivers(node)},
			SelfHeals: finding.SelfHeals{Because: "restarts of the kubelet have not helped; the kubelet ends after about 140 s of failures, and its supervisor restarts it, " +
				"which heals what was passing"},
			Advice: fmt.Sprintf("{check} read the kubelet's log on %s for \"CSINode\": it has the API server's message", node.Name),
		}))
	}
}
