package cluster

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Roles are the rights that the commands take: those to read first, then those
// of what is done on request alone.
func Roles() []repair.Role {
	reads := Reads()
	for _, r := range snapshot.Resources() {
		// Deployments are read where a pod of a rollout waits. Without them a finding has
		// less to say, which is no gap.
		if r.Optional {
			reads = append(reads, repair.RightTo("list", r.Kind, ""))
		}
	}
	watches := slices.Clone(reads)
	for i := range watches {
		watches[i].Verb = "watch"
	}
	return append([]repair.Role{
		{Name: "reader", For: "diagnose, plan, trace, preflight, snapshot", Needs: reads},
		{Name: "watcher", For: "diagnose --watch", Needs: watches},
		{Name: "kubelet", For: "trace --kubelet", Needs: []repair.Permission{{Verb: "get", Resource: string(snapshot.Nodes), Subresource: "proxy"}}},
		{Name: "controller", For: "--controller=auto; a binding in kube-system does", Needs: []repair.Permission{
			{Verb: repair.VerbCreate, Resource: string(snapshot.Pods), Subresource: "portforward", Namespace: metav1.NamespaceSystem}}},
		{Name: "controller-metrics", For: "--controller=auto; kube-controller-manager asks for it", Needs: []repair.Permission{{Verb: "get", Path: metricsPath}}},
		{Name: "events", For: "diagnose --events", Needs: []repair.Permission{repair.RightTo(repair.VerbCreate, snapshot.Events, "")}},
	}, repair.Roles()...)
}
