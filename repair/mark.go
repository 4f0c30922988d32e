package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// MarkAnnotation is facts.MarkAnnotation.
const MarkAnnotation = facts.MarkAnnotation

// markPath is the path of the annotation in a JSON patch.
var markPath = "/metadata/annotations/" + strings.ReplaceAll(MarkAnnotation, "/", "~1")

func markOf(kind Kind, code finding.Code, check string) string {
	return string(kind) + " for " + string(code) + " " + check
}

// entryMark is a mark that also names the written entry of a node's list. The node itself shows
// neither undo nor a person which one that was.
func entryMark(kind Kind, code finding.Code, check string, volume corev1.UniqueVolumeName) string {
	return markOf(kind, code, check) + facts.MarkOf + string(volume)
}

// mark writes the annotation along with another write. An object that seems to have no
// annotations may have some that were not read. It gets no mark, because a JSON patch would
// have to replace those that it has.
func mark(meta metav1.ObjectMeta, value string) []patchOp {
	if len(meta.Annotations) == 0 {
		return nil
	}
	return []patchOp{{"add", markPath, Compact(value)}}
}

// unmark gives the annotation the value that it had before, unless somebody
// else has written it since.
func unmark(meta metav1.ObjectMeta, written, before string) []patchOp {
	if meta.Annotations[MarkAnnotation] != written {
		return nil
	}
	if before = restorable(before); before == "" {
		return []patchOp{{Op: "remove", Path: markPath}}
	}
	return []patchOp{{"replace", markPath, Compact(before)}}
}

// restorable is the mark that undo may put back: the earlier one, unless a later undo would then
// take something for this package's own that is not. Only the object itself may prove that, and
// only the journal has the earlier mark.
func restorable(before string) string {
	kind, _, _ := strings.Cut(before, " for ")
	switch Kind(kind) {
	case Nudge, TouchVolume, PatchNodeStatus, RemoveOutOfServiceTaint:
		return before
	default:
		return ""
	}
}

// annotation writes the mark of an object and nothing else, or removes it where value is nil:
// every watcher of the object then looks at it again.
func annotation(target corev1.ObjectReference, value *string) Operation {
	return Operation{Verb: VerbPatch, Target: target, Merge: true, Patch: Compact(map[string]any{"metadata": map[string]any{
		"uid":             target.UID,
		"resourceVersion": target.ResourceVersion,
		"annotations":     map[string]*string{MarkAnnotation: value},
	}})}
}

// marking is a repair that only sets the mark. Once the object is gone, nobody needs the mark
// any more.
func marking(kind snapshot.Kind, object metav1.Object, value string) Repair {
	target := refTo(kind, object)
	undo := annotation(target, nil)
	return Repair{
		Do:       annotation(target, &value),
		Undo:     &undo,
		PreImage: annotationImage(object),
		stands: func(v *View) bool {
			now := v.Stored(target)
			return now == nil || now.GetUID() != target.UID || now.GetAnnotations()[MarkAnnotation] == value
		},
		check: answered(func(after *image) error { return after.checkMark(value) }),
	}
}

// image has the fields that repairs write, in the form of the object. Fields that a repair
// does not write are absent.
type image struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations,omitzero"`
	} `json:"metadata,omitzero"`
	Spec struct {
		Taints []corev1.Taint `json:"taints"`
	} `json:"spec,omitzero"`
	Status struct {
		VolumesAttached []corev1.AttachedVolume `json:"volumesAttached"`
	} `json:"status,omitzero"`
}

// imageOf has the object's mark, if it has one.
func imageOf(object metav1.Object) *image {
	var i image
	if before, marked := object.GetAnnotations()[MarkAnnotation]; marked {
		i.Metadata.Annotations = map[string]string{MarkAnnotation: before}
	}
	return &i
}

func annotationImage(object metav1.Object) json.RawMessage {
	i := imageOf(object)
	if i.Metadata.Annotations == nil {
		i.Metadata.Annotations = map[string]string{}
	}
	return Compact(i)
}

func (i *image) checkMark(want string) error {
	if got := i.Metadata.Annotations[MarkAnnotation]; got != want {
		return fmt.Errorf("the API server would store the annotation %q, not %q", got, want)
	}
	return nil
}

// imageBefore is the pre-image that the journal has for the write.
func imageBefore(w Written) (*image, error) {
	var before image
	if err := json.Unmarshal(w.PreImage, &before); err != nil {
		return nil, fmt.Errorf("read what was there before: %w", err)
	}
	return &before, nil
}

// undoMark restores the annotation's old value. noun is the object's kind in a sentence.
func undoMark(w Written, kind snapshot.Kind, noun string) (*Reversal, error) {
	before, err := imageBefore(w)
	if err != nil {
		return nil, err
	}
	var after image
	if err := json.Unmarshal(w.Operation.Patch, &after); err != nil {
		return nil, fmt.Errorf("read what was written: %w", err)
	}
	target := w.Operation.Target
	meta := &metav1.ObjectMeta{Name: target.Name, UID: target.UID, ResourceVersion: target.ResourceVersion}
	value := after.Metadata.Annotations[MarkAnnotation]
	mark, _, nudged := splitNudge(value)
	switch {
	case meta.Name == "" || meta.UID == "":
		return nil, errors.New("it does not say which object was written to")
	case mark != markOf(w.Repair, w.Finding.Code, w.Finding.Check) || nudged != (w.Repair == Nudge):
		return nil, fmt.Errorf("no %s writes the annotation %q: the journal was changed", w.Repair, value)
	}
	written := marking(kind, meta, value)
	var old *string
	text := restorable(before.Metadata.Annotations[MarkAnnotation])
	if text != "" {
		old = &text
	}
	return &Reversal{
		Summary: fmt.Sprintf("take the annotation off %s %s", noun, meta.Name),
		do:      written.Do,
		inverse: written.Undo,
		// The annotation is its own proof: its value tells what was done and when.
		gone: func(v *View) string {
			now := v.Stored(written.Do.Target)
			switch {
			case now == nil || now.GetUID() != meta.UID:
				return fmt.Sprintf("the %s is gone already, and the annotation with it", noun)
			case now.GetAnnotations()[MarkAnnotation] != value:
				return "the annotation is gone already"
			}
			return ""
		},
		prepare: func(v *View) (*Write, error) {
			now := v.Stored(written.Do.Target)
			return &Write{
				Do:       annotation(refTo(kind, now), old),
				PreImage: annotationImage(now),
				Check:    answered(func(after *image) error { return after.checkMark(text) }),
			}, nil
		},
	}, nil
}
