package facts

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	// FieldManager is the field manager of a repair's writes.
	FieldManager = "kubectl-volume_doctor"
	// MarkAnnotation notes on an object which repair changed it, and for which finding. The
	// managed fields and the event have the author and the time.
	MarkAnnotation = "volume-doctor/last-repair"
	// MarkOf comes before the volume in that annotation, on an object that has several.
	MarkOf = " of "
	// AddsEntry is the repair that adds an entry to volumesAttached.
	AddsEntry = "patch-node-status"
)

// AddedByRepair reports whether a repair added the volume to the node's volumesAttached, and
// nobody has written the list since.
func AddedByRepair(node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	what, of, _ := strings.Cut(node.Annotations[MarkAnnotation], MarkOf)
	writer, _ := VolumesAttachedWriter(node)
	return writer == FieldManager && Lists(node, volume) && of == string(volume) && strings.HasPrefix(what, AddsEntry+" for ")
}
