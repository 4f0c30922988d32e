package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var csiNodeNotInitialized = Check{
	Code:     "VD617",
	Name:     "csinode-not-initialized",
	Title:    "A node does not become Ready because its kubelet cannot make its CSINode",
	Severity: Warning,
	Needs:    []snapshot.Kind{snapshot.Nodes, snapshot.CSINodes},
	Run:      runCSINodeNotInitialized,
}

// runCSINodeNotInitialized goes by what the kubelet writes in the condition
// while it tries. It ends after about 140 s of failures and starts anew, so that
// registrationSettles covers the first life of a kubelet.
func runCSINodeNotInitialized(p *Pass) {
	for _, node := range p.Snapshot.Nodes {
		c := readyCondition(node)
		if c == nil || c.Status != corev1.ConditionFalse || !containsAny(c.Message, "CSINode is not yet initialized", "failed to initialize CSINode") ||
			p.Age(latest(c.LastTransitionTime, node.CreationTimestamp)) < registrationSettles {
			continue
		}
		since := c.LastTransitionTime
		p.Report(Finding{
			Subject: Object{Kind: "Node", Name: node.Name, UID: node.UID},
			Node:    nodeName(node),
			Since:   &since,
			Message: fmt.Sprintf("Node %s has not been Ready for %s because its kubelet cannot make or update its CSINode", node.Name, rounded(p.Age(since))),
			Cause: "the kubelet may not read or write CSINodes (the node authorizer, an admission webhook), cannot reach the API server as it should, or " +
				"finds a CSINode of another Node object",
			Evidence: []Evidence{{"node/" + node.Name, "status.conditions[Ready]", fmt.Sprintf("%s: %s", c.Reason, c.Message)}, p.registeredDrivers(node)},
			SelfHeals: SelfHeals{Because: "the kubelet ends after about 140 s of failures and is started anew by its supervisor; that heals what was passing, and " +
				"has not in this time"},
			Advice: fmt.Sprintf("read the kubelet's log on %s for \"CSINode\"; it has the API server's words", node.Name),
		})
	}
}
