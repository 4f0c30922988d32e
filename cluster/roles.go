package cluster

import (
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// PagePath is the path that a user must have the right to get, at the API server, to be shown
// the report of serve. It stands in a nonResourceURLs rule.
const PagePath = "/volume-doctor"

// DeployNamespace is the namespace of serve in the documents.
const DeployNamespace = "volume-doctor"

// OpenReportsGroup is the API group of the objects that serve --reports writes.
const OpenReportsGroup = "openreports.io"

// OwnName is the name of each object that serve keeps: its Lease and its OpenReports.
const OwnName = "volume-doctor"

// ownName is the object's name for a right to serve's own object; "" for verbs with which no
// API server can check the name: list and create.
func ownName(verb string) string {
	if verb == "list" || verb == repair.VerbCreate {
		return ""
	}
	return OwnName
}

// openReportRights are the rights to write OpenReports.
func openReportRights() []repair.Permission {
	var rights []repair.Permission
	for _, resource := range []string{"reports", "clusterreports"} {
		for _, verb := range []string{"list", repair.VerbCreate, "update", repair.VerbDelete} {
			rights = append(rights, repair.Permission{Verb: verb, Group: OpenReportsGroup, Resource: resource, Name: ownName(verb)})
		}
	}
	return rights
}

// lease is a right to the Lease of serve, which is in the namespace of its deployment.
func lease(verb string) repair.Permission {
	p := repair.RightTo(verb, snapshot.Leases, ownName(verb))
	p.Namespace = DeployNamespace
	return p
}

// Roles are the rights that the commands need: first those to read, then those for acts that
// happen only on request.
func Roles() []repair.Role {
	reads := Reads()
	for _, r := range snapshot.Resources() {
		// Deployments are read where a pod of a rollout waits. Without them a finding says
		// less, which is no gap.
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
		{Name: "watcher", For: "diagnose --watch, serve", Needs: watches},
		{Name: "drivers", For: "diagnose, snapshot, serve: the own objects of drivers that are installed", Needs: driverRights()},
		{Name: "kubelet", For: "trace --kubelet", Needs: []repair.Permission{{Verb: "get", Resource: string(snapshot.Nodes), Subresource: "proxy"}}},
		{Name: "controller", For: "--controller=auto; a binding in kube-system does", Needs: []repair.Permission{
			{Verb: repair.VerbCreate, Resource: string(snapshot.Pods), Subresource: "portforward", Namespace: metav1.NamespaceSystem}}},
		{Name: "controller-metrics", For: "--controller=auto; kube-controller-manager asks for it", Needs: []repair.Permission{{Verb: "get", Path: metricsPath}}},
		{Name: "leader", For: "serve; a binding in its own namespace does", Needs: []repair.Permission{
			lease("get"), lease(repair.VerbCreate), lease("update")}},
		{Name: "report-page", For: "serve --report-page, to ask who may see the report", Needs: []repair.Permission{
			{Verb: repair.VerbCreate, Group: authenticationv1.GroupName, Resource: "tokenreviews"},
			{Verb: repair.VerbCreate, Group: authorizationv1.GroupName, Resource: "subjectaccessreviews"}}},
		{Name: "report-viewer", For: "whoever is to see the report of serve --report-page", Needs: []repair.Permission{{Verb: "get", Path: PagePath}}},
		{Name: "events", For: "diagnose --events, serve --events", Needs: []repair.Permission{repair.RightTo(repair.VerbCreate, snapshot.Events, "")}},
		{Name: "reports", For: "serve --reports", Needs: openReportRights()},
	}, repair.Roles()...)
}
