package nodestatus

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var InuseClobbered = check.Check{
	Code:     "VD306",
	Name:     "inuse-clobbered",
	Title:    "A program that is neither the kubelet nor the controller has written a node's lists of volumes",
	Severity: finding.Info,
	Breaks:   check.Uses,
	Needs:    []snapshot.Kind{snapshot.Nodes},
	Never:    "put the lists right by hand while the program runs: it overwrites them again",
	Run:      runInuseClobbered,
}

// listWriters are the rightful writers of the lists, under the names that distributions use: the
// kubelet, the controller, or one program with both.
var listWriters = []string{"kubelet", reconcile.ControllerManager, "k3s", "kubelite", "microshift", "hyperkube", "kwok", "vcluster"}

// nodeLists are the two lists, with their owners.
var nodeLists = []struct{ field, owner string }{{"volumesInUse", "the kubelet"}, {"volumesAttached", "the controller"}}

func runInuseClobbered(p *check.Run) {
	for _, node := range p.Snapshot.Nodes {
		if facts.Virtual(node) {
			continue
		}
		f := finding.Finding{Subject: finding.Object{Kind: "Node", Name: node.Name, UID: node.UID}, Node: facts.NodeName(node)}
		for _, list := range nodeLists {
			writer, at := facts.ListWriter(node, list.field)
			if writer == "" || byRights(node, list.field, writer) || customary(p.View, list.field, writer) {
				continue
			}
			if f.Since == nil || f.Since.Before(&at) {
				f.Since = &at
			}
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "metadata.managedFields",
				Value: fmt.Sprintf("%q wrote status.%s at %s", writer, list.field, facts.Stamp(at))})
			if f.Message == "" {
				f.Message = fmt.Sprintf("Program %q last wrote %s of node %s, in place of %s", writer, list.field, node.Name, list.owner)
			}
		}
		if f.Message == "" {
			continue
		}
		f.Cause = "a program that writes the whole of a node's status puts the lists back to what they were when it read them, or empties them"
		f.SelfHeals = finding.SelfHeals{Because: "the controller does not look at the list again; the kubelet puts volumesInUse right within 10 s; the program " +
			"may write again at any time"}
		f.Advice = "{note} find out what the program is. If it is not part of the cluster's own control plane, {change} have it patch only its own " +
			"fields; see the other findings for volumes that its writing has lost"
		p.Report(f)
	}
}

// byRights reports whether the writer owns one of the lists, or is a person. The writer of the
// node's heartbeat is its kubelet, under whatever name, and owns volumesInUse. Where a known
// kubelet writes to the node as well, the heartbeat's writer may be a program that writes back a
// whole status.
func byRights(node *corev1.Node, field, writer string) bool {
	return isKnown(writer) || field == "volumesInUse" && slices.ContainsFunc(node.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == writer && writesHeartbeat(e)
	}) && !slices.ContainsFunc(node.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return isKnown(e.Manager) && e.Manager != reconcile.ControllerManager && !strings.HasPrefix(e.Manager, "kubectl")
	})
}

func isKnown(writer string) bool {
	name := strings.TrimSuffix(writer, ".exe")
	return slices.Contains(listWriters, name) || strings.HasPrefix(name, "kubectl")
}

// inUseListRewritten reports whether a program without the right to has written volumesInUse;
// without it the kubelet corrects the list. A lost entry of volumesAttached stays lost after such
// a write, which is a failure of its own.
func inUseListRewritten(p *facts.View, cause, effect finding.Finding) bool {
	node := p.Snapshot.Node(cause.Node)
	if node == nil || cause.Node != effect.Node {
		return false
	}
	writer, _ := facts.ListWriter(node, "volumesInUse")
	return writer != "" && !byRights(node, "volumesInUse", writer) && !customary(p, "volumesInUse", writer)
}

// writesHeartbeat reports whether the entry belongs to whoever last wrote the heartbeat of
// the node's Ready condition.
func writesHeartbeat(e metav1.ManagedFieldsEntry) bool {
	return e.FieldsV1 != nil && bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:lastHeartbeatTime"`))
}

var keptWritersOfList facts.KeptBy[string, map[string]int]

// customary reports whether the writer last wrote the list on more than one node, and on most
// nodes with a known writer: it is then the distribution's own name for a kubelet or a
// controller.
func customary(p *facts.View, field, writer string) bool {
	writers := keptWritersOfList.Of(p, field, findWritersOfList)
	told := 0
	for _, nodes := range writers {
		told += nodes
	}
	return writers[writer] > 1 && 2*writers[writer] > told
}

// findWritersOfList counts, by writer, the nodes whose list it last wrote.
func findWritersOfList(p *facts.View, field string) map[string]int {
	writers := map[string]int{}
	for _, node := range p.Snapshot.Nodes {
		if w, _ := facts.ListWriter(node, field); w != "" {
			writers[w]++
		}
	}
	return writers
}
