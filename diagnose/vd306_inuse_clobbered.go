package diagnose

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var inuseClobbered = Check{
	Code:     "VD306",
	Name:     "inuse-clobbered",
	Title:    "A program that is neither the kubelet nor the controller has written a node's lists of volumes",
	Severity: Info,
	Needs:    []snapshot.Kind{snapshot.Nodes},
	Run:      runInuseClobbered,
}

// listWriters are who writes the lists by rights, as distributions call them:
// the kubelet and the controller, or one program with both in it.
var listWriters = []string{"kubelet", "kube-controller-manager", "k3s", "kubelite", "microshift", "hyperkube", "kwok", "vcluster"}

// nodeLists are the two lists, with whose each is.
var nodeLists = []struct{ field, owner string }{{"volumesInUse", "the kubelet"}, {"volumesAttached", "the controller"}}

func runInuseClobbered(p *Pass) {
	for _, node := range p.Snapshot.Nodes {
		if virtual(node) {
			continue
		}
		f := Finding{Subject: Object{Kind: "Node", Name: node.Name, UID: node.UID}, Node: nodeName(node)}
		for _, list := range nodeLists {
			writer, at := listWriter(node, list.field)
			if writer == "" || byRights(writer) || p.customary(list.field, writer) {
				continue
			}
			if f.Since == nil || f.Since.Before(&at) {
				f.Since = &at
			}
			f.Evidence = append(f.Evidence, Evidence{"node/" + node.Name, "metadata.managedFields",
				fmt.Sprintf("%q wrote status.%s at %s", writer, list.field, stamp(at))})
			if f.Message == "" {
				f.Message = fmt.Sprintf("Node %s had its %s last written by %q, and not by %s", node.Name, list.field, writer, list.owner)
			}
		}
		if f.Message == "" {
			continue
		}
		f.Cause = "a program that writes the whole of a node's status puts the lists back to what they were when it read them, or empties them"
		f.SelfHeals = SelfHeals{Because: "the kubelet puts volumesInUse right within 10 s and the controller does not look at volumesAttached again; the program " +
			"may write again at any time"}
		f.Advice = "this is a hint: find out what the program is. If it is not part of the cluster's own control plane, have it patch only the fields that are " +
			"its own; see the other findings for volumes that its writing has lost"
		p.Report(f)
	}
}

// byRights says that the writer owns one of the lists, or is a person's hand.
func byRights(writer string) bool {
	name := strings.TrimSuffix(writer, ".exe")
	return slices.Contains(listWriters, name) || strings.HasPrefix(name, "kubectl")
}

// customary says that the writer wrote the list of most of the nodes that tell:
// it is the distribution's own name for a kubelet or a controller.
func (p *Pass) customary(field, writer string) bool {
	writers := p.remember().writersOfList.get(field, p.findWritersOfList)
	told := 0
	for _, nodes := range writers {
		told += nodes
	}
	return writers[writer] > 1 && 2*writers[writer] > told
}

// findWritersOfList counts the nodes whose list each wrote last.
func (p *Pass) findWritersOfList(field string) map[string]int {
	writers := map[string]int{}
	for _, node := range p.Snapshot.Nodes {
		if w, _ := listWriter(node, field); w != "" {
			writers[w]++
		}
	}
	return writers
}

// listWriter is who last wrote the list in the node's status, as its managed
// fields have it; "" where they do not say.
func listWriter(node *corev1.Node, field string) (manager string, at metav1.Time) {
	name := []byte(`"f:` + field + `"`)
	for _, m := range node.ManagedFields {
		if m.FieldsV1 == nil || m.Time == nil || !bytes.Contains(m.FieldsV1.GetRawBytes(), name) {
			continue
		}
		if m.Time.After(at.Time) {
			manager, at = m.Manager, *m.Time
		}
	}
	return manager, at
}
