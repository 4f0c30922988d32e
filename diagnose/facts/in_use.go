package facts

import (
	"bytes"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var keptWritersOfList KeptBy[string, map[string]int]

// Customary reports whether the writer last wrote the list on more than one node, and on most
// nodes with a known writer: it is then the distribution's own name for a kubelet or a
// controller.
func (p *View) Customary(field, writer string) bool {
	writers := keptWritersOfList.Of(p, field, (*View).findWritersOfList)
	told := 0
	for _, nodes := range writers {
		told += nodes
	}
	return writers[writer] > 1 && 2*writers[writer] > told
}

// findWritersOfList counts, by writer, the nodes whose list it last wrote.
func (p *View) findWritersOfList(field string) map[string]int {
	writers := map[string]int{}
	for _, node := range p.Snapshot.Nodes {
		if w, _ := ListWriter(node, field); w != "" {
			writers[w]++
		}
	}
	return writers
}

// ListWriter is the last writer of the list in the node's status, by its managed fields. It is ""
// where they do not show it, or where several wrote in the same second: the entries are sorted by
// name.
func ListWriter(node *corev1.Node, field string) (manager string, at metav1.Time) {
	name := []byte(`"f:` + field + `"`)
	for _, m := range node.ManagedFields {
		if m.FieldsV1 == nil || m.Time == nil || !bytes.Contains(m.FieldsV1.GetRawBytes(), name) {
			continue
		}
		switch {
		case m.Time.After(at.Time):
			manager, at = m.Manager, *m.Time
		case m.Time.Equal(&at) && m.Manager != manager:
			manager = ""
		}
	}
	return manager, at
}

// WritesHeartbeat reports whether the entry belongs to whoever last wrote the heartbeat of
// the node's Ready condition.
func WritesHeartbeat(e metav1.ManagedFieldsEntry) bool {
	return e.FieldsV1 != nil && bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(`"f:lastHeartbeatTime"`))
}

// RunningSince is the earliest start of a running container; zero where none runs.
func RunningSince(pod *corev1.Pod) metav1.Time {
	var first metav1.Time
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if r := c.State.Running; r != nil && !r.StartedAt.IsZero() && (first.IsZero() || r.StartedAt.Before(&first)) {
			first = r.StartedAt
		}
	}
	return first
}
