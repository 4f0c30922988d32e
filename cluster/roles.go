package cluster

import (
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// Roles are the rights that the commands take: those to read first, then those
// of what is done on request alone.
func Roles() []repair.Role {
	reads := append(Reads(), asked)
	watches := slices.Clone(reads)
	for i := range watches {
		watches[i].Verb = "watch"
	}
	return append([]repair.Role{
		{Name: "reader", For: "diagnose, plan, trace, preflight, snapshot", Needs: reads},
		{Name: "watcher", For: "diagnose --watch", Needs: watches},
		{Name: "kubelet", For: "trace --kubelet", Needs: []repair.Permission{{Verb: "get", Resource: "nodes", Subresource: "proxy"}}},
		{Name: "events", For: "diagnose --events", Needs: []repair.Permission{{Verb: repair.VerbCreate, Resource: "events"}}},
	}, repair.Roles()...)
}

// asked is read where a pod of a rollout waits. Without it a finding lacks what
// it would say of the Deployment, which is no gap.
var asked = repair.Permission{Verb: "list", Group: "apps", Resource: "deployments"}
