package facts

import (
	"bytes"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
