package facts

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// FieldManager is who the API server writes down for what a repair writes.
	FieldManager = "kubectl-volume_doctor"
	// MarkAnnotation tells whoever looks at an object that it was repaired, and
	// what for. Who and when stand in the managed fields and in the event.
	MarkAnnotation = "volume-doctor/last-repair"
	// MarkOf is what stands in it before the volume, of an object that has several.
	MarkOf = " of "
	// AddsEntry is the repair that adds an entry to volumesAttached.
	AddsEntry = "patch-node-status"
)

// AddedByRepair reports whether the volume stands in the node's volumesAttached because a
// repair added it, and that nobody has written the list since.
func AddedByRepair(node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	what, of, _ := strings.Cut(node.Annotations[MarkAnnotation], MarkOf)
	writer, _ := VolumesAttachedWriter(node)
	return writer == FieldManager && Lists(node, volume) && of == string(volume) && strings.HasPrefix(what, AddsEntry+" for ")
}
