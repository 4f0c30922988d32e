package repair

import (
	"encoding/json"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// MarkAnnotation tells whoever looks at an object that it was repaired, and
// what for. Who and when stand in the managed fields and in the event.
const MarkAnnotation = "volume-doctor/last-repair"

// markPath is the annotation as a JSON patch names it.
var markPath = "/metadata/annotations/" + strings.ReplaceAll(MarkAnnotation, "/", "~1")

func markOf(kind Kind, code finding.Code, check string) string {
	return string(kind) + " for " + string(code) + " " + check
}

// mark writes the annotation along with something else. An object that seems to
// have no annotations may be one of which none was worth reading; it gets none,
// because a JSON patch would have to replace those that it has.
func mark(meta metav1.ObjectMeta, value string) []patchOp {
	if len(meta.Annotations) == 0 {
		return nil
	}
	return []patchOp{{"add", markPath, Compact(value)}}
}

// unmark gives the annotation the value that it had before, unless somebody
// else has written it since.
func unmark(meta metav1.ObjectMeta, written, before string) []patchOp {
	switch {
	case meta.Annotations[MarkAnnotation] != written:
		return nil
	case before == "":
		return []patchOp{{Op: "remove", Path: markPath}}
	}
	return []patchOp{{"replace", markPath, Compact(before)}}
}

// restorable is the mark that undo may put back: what was there before, unless
// it would have a later undo take for this package's own what is not. Only the
// object itself may vouch for that, and what was there before is a journal's
// word.
func restorable(before string) string {
	kind, _, _ := strings.Cut(before, " for ")
	switch Kind(kind) {
	case Nudge, TouchVolume, PatchNodeStatus, RemoveOutOfServiceTaint:
		return before
	default:
		return ""
	}
}

// annotate is a patch that does nothing but to set the annotation, or with nil
// to remove it: whoever watches the object looks at it again.
func annotate(meta metav1.ObjectMeta, value *string) json.RawMessage {
	return Compact(map[string]any{"metadata": map[string]any{
		"uid":             meta.UID,
		"resourceVersion": meta.ResourceVersion,
		"annotations":     map[string]*string{MarkAnnotation: value},
	}})
}
