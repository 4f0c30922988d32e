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
func undoMark(w written, valid func(value string) bool, m marked) (*reversal, error) {
	var before, after markImage
	if err := json.Unmarshal(w.intent.PreImage, &before); err != nil {
		return nil, fmt.Errorf("read what was there before: %w", err)
	}
	if err := json.Unmarshal(w.intent.Operation.Patch, &after); err != nil {
		return nil, fmt.Errorf("read what was written: %w", err)
	}
	target, value := w.intent.Operation.Target, after.Metadata.Annotations[markAnnotation]
	switch {
	case target.Name == "" || target.UID == "":
		return nil, errors.New("it does not say which object was written to")
	case !valid(value):
		return nil, fmt.Errorf("no %s writes the annotation %q: the journal was changed", w.intent.Repair, value)
	}
	written := metav1.ObjectMeta{Name: target.Name, UID: target.UID, ResourceVersion: target.ResourceVersion}
	inverse := m.write(written, nil)
	var old *string
	if text := restorable(before.Metadata.Annotations[markAnnotation]); text != "" {
		old = &text
	}
	return &reversal{
		summary: fmt.Sprintf("take the annotation off %s %s", m.kind, target.Name),
		needs:   []Permission{m.needs(target.Name)},
		reads:   m.reads,
		do:      m.write(written, &value),
		inverse: &inverse,
		// The annotation is its own proof: its value tells what was done and when.
		gone: func(v *View) string {
			now := v.stored(inverse.Target)
			switch {
			case now == nil || now.GetUID() != target.UID:
				return fmt.Sprintf("the %s is gone already, and the annotation with it", m.kind)
			case now.GetAnnotations()[markAnnotation] != value:
				return "the annotation is gone already"
			}
			return ""
		},
		prepare: func(v *View) (*write, error) {
			now := v.stored(inverse.Target)
			var text string
			if old != nil {
				text = *old
			}
			return &write{
				op:     m.write(metav1.ObjectMeta{Name: now.GetName(), UID: now.GetUID(), ResourceVersion: now.GetResourceVersion()}, old),
				intent: Entry{PreImage: annotationImage(now)},
				check:  func(after json.RawMessage) error { return checkMark(after, text) },
			}, nil
		},
	}, nil
}
