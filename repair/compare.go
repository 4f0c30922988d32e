package repair

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Differs names the first thing in which two repairs, worked out at different times, differ;
// "" where they would write the same to the same object in the same state. This is what makes
// a reviewed file binding: a Repair that was read from a file has no guards and is never made
// itself, it only chooses among those that were proposed just now.
//
// The tests in the patch are compared too: they hold the state that the reviewer saw. Left
// out is only what changes without meaning anything: resourceVersions, the time in a nudge's
// mark, an attachment's status in the pre-image, and the texts about the finding and about
// lower kinds, which mention ages.
func (r *Repair) Differs(reviewed *Repair) string {
	a, b := &r.Finding, &reviewed.Finding
	return cmp.Or(r.aimsElsewhere(reviewed), firstOther([]part{
		{"target", sameTarget(r.Do.Target, reviewed.Do.Target)},
		{"summary", r.Summary == reviewed.Summary},
		{"finding", *RefTo(*a) == *RefTo(*b) && a.VolumeAttachment == b.VolumeAttachment && a.Holder == b.Holder},
		{"patch", r.Do.Merge == reviewed.Do.Merge && sameJSON(r.Do.timeless(), reviewed.Do.timeless())},
		{"inverse", sameInverse(r.Undo, reviewed.Undo)},
		{"what is not reversed", r.WhyNot == reviewed.WhyNot},
		{"state before", sameJSON(steady(r.PreImage), steady(reviewed.PreImage))},
		{"risk", r.Risk == reviewed.Risk},
		{"set of rights", slices.Equal(r.Needs, reviewed.Needs)},
		{"guard that refuses", reviewed.BlockedBy == nil},
	}))
}

// aimsElsewhere names the first kind or name in which the objects of two repairs differ; "" where
// they do not. The guards decide whether the object of that name is still the same one.
func (r *Repair) aimsElsewhere(reviewed *Repair) string {
	a, b := r.Do.Target, reviewed.Do.Target
	return firstOther([]part{
		{"kind", r.Kind == reviewed.Kind},
		{"verb", r.Do.Verb == reviewed.Do.Verb},
		{"target", a.Kind == b.Kind && a.Namespace == b.Namespace && a.Name == b.Name},
		{"subresource", r.Do.Subresource == reviewed.Do.Subresource},
		{"object", sameJSON(r.Do.Object, reviewed.Do.Object)},
	})
}

// part is one thing in which two repairs may differ.
type part struct {
	name string
	same bool
}

func firstOther(parts []part) string {
	for _, p := range parts {
		if !p.same {
			return p.name
		}
	}
	return ""
}

func sameInverse(a, b *Operation) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Verb == b.Verb && sameTarget(a.Target, b.Target) && a.Subresource == b.Subresource && a.Merge == b.Merge &&
		sameJSON(a.timeless(), b.timeless()) && sameJSON(a.Object, b.Object)
}

func sameTarget(a, b corev1.ObjectReference) bool {
	a.ResourceVersion, b.ResourceVersion = "", ""
	return a == b
}

// timeless is the patch without the value of its resourceVersion and without the
// time of a nudge.
func (op Operation) timeless() json.RawMessage {
	if !op.Merge {
		var steps []patchOp
		if json.Unmarshal(op.Patch, &steps) != nil {
			return op.Patch
		}
		for i, step := range steps {
			if step.Path == resourceVersionPath {
				steps[i].Value = nil
			}
		}
		return Compact(steps)
	}
	var patch map[string]any
	if json.Unmarshal(op.byHand(), &patch) != nil {
		return op.Patch
	}
	unclock(patch)
	return Compact(patch)
}

// steady is the pre-image without the fields that its controllers keep changing.
func steady(image json.RawMessage) json.RawMessage {
	var object map[string]any
	if json.Unmarshal(image, &object) != nil {
		return image
	}
	if meta, ok := object["metadata"].(map[string]any); ok && object["kind"] != nil { // a whole object
		delete(meta, "resourceVersion")
		delete(object, "status")
	}
	unclock(object)
	return Compact(object)
}

// unclock removes the time from a nudge's mark on the object.
func unclock(object map[string]any) {
	meta, _ := object["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	if value, ok := annotations[MarkAnnotation].(string); ok {
		annotations[MarkAnnotation], _, _ = splitNudge(value)
	}
}

// Same reports whether the two consents allow the same.
func (c Consent) Same(other Consent) bool {
	return sets.New(c.Allow...).Equal(sets.New(other.Allow...)) && sets.New(c.Fenced...).Equal(sets.New(other.Fenced...)) &&
		sets.New(c.Detached...).Equal(sets.New(other.Detached...))
}

// String is the consent as flags.
func (c Consent) String() string {
	var flags []string
	for _, kind := range c.Allow {
		flags = append(flags, "--allow "+string(kind))
	}
	for _, node := range c.Fenced {
		flags = append(flags, "--fenced "+string(node))
	}
	for _, va := range c.Detached {
		flags = append(flags, "--detached "+va)
	}
	if len(flags) == 0 {
		return "no --allow, no --fenced and no --detached"
	}
	return strings.Join(flags, " ")
}
