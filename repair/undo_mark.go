package repair

import (
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// marked is a kind of object of which a repair writes nothing but the mark.
type marked struct {
	kind  string // in a sentence
	reads []snapshot.Kind
	needs func(name string) Permission
	// write sets the mark, or with nil removes it.
	write func(meta metav1.ObjectMeta, value *string) Operation
}

// undoMark gives the annotation its old value back. valid says whether the
// repair writes such a value.
func undoMark(w Written, valid func(value string) bool, m marked) (*Reversal, error) {
	var before, after markImage
	if err := json.Unmarshal(w.PreImage, &before); err != nil {
		return nil, fmt.Errorf("read what was there before: %w", err)
	}
	if err := json.Unmarshal(w.Operation.Patch, &after); err != nil {
		return nil, fmt.Errorf("read what was written: %w", err)
	}
	target, value := w.Operation.Target, after.Metadata.Annotations[MarkAnnotation]
	switch {
	case target.Name == "" || target.UID == "":
		return nil, errors.New("it does not say which object was written to")
	case !valid(value):
		return nil, fmt.Errorf("no %s writes the annotation %q: the journal was changed", w.Repair, value)
	}
	written := metav1.ObjectMeta{Name: target.Name, UID: target.UID, ResourceVersion: target.ResourceVersion}
	inverse := m.write(written, nil)
	var old *string
	if text := restorable(before.Metadata.Annotations[MarkAnnotation]); text != "" {
		old = &text
	}
	return &Reversal{
		Summary: fmt.Sprintf("take the annotation off %s %s", m.kind, target.Name),
		Needs:   []Permission{m.needs(target.Name)},
		reads:   m.reads,
		do:      m.write(written, &value),
		inverse: &inverse,
		// The annotation is its own proof: its value tells what was done and when.
		gone: func(v *View) string {
			now := v.Stored(inverse.Target)
			switch {
			case now == nil || now.GetUID() != target.UID:
				return fmt.Sprintf("the %s is gone already, and the annotation with it", m.kind)
			case now.GetAnnotations()[MarkAnnotation] != value:
				return "the annotation is gone already"
			}
			return ""
		},
		prepare: func(v *View) (*Write, error) {
			now := v.Stored(inverse.Target)
			var text string
			if old != nil {
				text = *old
			}
			return &Write{
				Do:       m.write(metav1.ObjectMeta{Name: now.GetName(), UID: now.GetUID(), ResourceVersion: now.GetResourceVersion()}, old),
				PreImage: annotationImage(now),
				Check:    func(after json.RawMessage) error { return checkMark(after, text) },
			}, nil
		},
	}, nil
}
