package repair

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// clause is one part of what a repair does: a verb and its object.
type clause struct{ verb, object string }

// clauses are the writes of the repair, each as a verb and an object, made of its operations
// alone.
func (r *Repair) clauses() []clause {
	list := r.Do.clauses(r.Finding)
	if r.Next != nil {
		list = append(list, clause{r.Next.Verb, "it again"})
	}
	return list
}

// summary is what the repair writes, in a few words: "delete pod default/web-0".
func (r *Repair) summary() string {
	var texts []string
	for _, c := range r.clauses() {
		texts = append(texts, c.verb+" "+c.object)
	}
	if r.Do.Target.Kind == "VolumeAttachment" {
		texts[0] += attaches(r.Do.Object) + attaches(r.PreImage)
	}
	return strings.Join(texts, ", ")
}

// does is a sentence: what the repair writes, the purpose where the write does not show it,
// and whether it can be undone. The finding names the object's role.
func (r *Repair) does() string {
	var texts []string
	for _, c := range r.clauses() {
		texts = append(texts, c.verb+"s "+c.object)
	}
	text := strings.Join(texts, ", ")
	if r.SoThat != "" {
		text += ", so that " + r.SoThat
	}
	return text + " (" + r.Undoing() + ")"
}

// Undoing is a clause: whether the write can be undone, when it cannot, and what stays.
func (r *Repair) Undoing() string {
	switch {
	case r.ByHand:
		return "can be undone; by hand alone"
	case r.Undo == nil:
		return "cannot be undone"
	}
	text := "can be undone"
	for _, but := range []string{r.notUndone, r.WhyNot} {
		if but != "" {
			text += "; " + but
		}
	}
	return text
}

// notUndone says when a guard of an undo refuses it, of the guards that refuse once a repair has
// served its purpose.
var notUndone = map[string]string{
	notInUseGuard.Name:     "not while the volume is in use",
	notUsedThereGuard.Name: "not while the volume is in use",
	noStaleMountGuard.Name: "not while a detached volume is in use there",
}

// clauses are the writes of the operation, each as a verb and an object.
func (op Operation) clauses(f finding.Finding) []clause {
	object := objectName(op.Target)
	var list []clause
	switch {
	case op.Verb != VerbPatch:
		return []clause{{op.Verb, object}}
	case op.Merge:
		return []clause{{"set", "annotation " + MarkAnnotation + " of " + object}}
	}
	var steps []patchOp
	if err := json.Unmarshal(op.Patch, &steps); err != nil {
		return []clause{{op.Verb, object}} // not this package's
	}
	tested := map[string]json.RawMessage{}
	for _, step := range steps {
		field, item := path.Split(step.Path)
		field = strings.TrimSuffix(field, "/")
		if _, err := strconv.Atoi(item); err != nil && item != "-" {
			field = step.Path
		}
		switch {
		case step.Op == "test":
			tested[step.Path] = step.Value
		case step.Path == resourceVersionPath, step.Path == markPath: // how it is written, and by whom
		case step.Op == "add":
			list = append(list, clause{"add", fmt.Sprintf("%s to %s of %s", valueName(f, step.Value), path.Base(field), object)})
		case step.Op == "remove":
			value := tested[step.Path]
			if value == nil {
				value = itemOf(tested[field], item)
			}
			list = append(list, clause{"take", fmt.Sprintf("%s off %s of %s", valueName(f, value), path.Base(field), object)})
		default:
			list = append(list, clause{"set", fmt.Sprintf("%s of %s to %s", strings.ReplaceAll(strings.Trim(field, "/"), "/", "."), object, step.Value)})
		}
	}
	return list
}

// objectName is the object's name in a sentence.
func objectName(o corev1.ObjectReference) string {
	kind := o.Kind
	switch kind {
	case "Node", "Pod":
		kind = strings.ToLower(kind)
	}
	if o.Namespace != "" {
		return kind + " " + o.Namespace + "/" + o.Name
	}
	return kind + " " + o.Name
}

// attaches says which volume the VolumeAttachment attaches to which node; "" where the text
// is not the whole object.
func attaches(object json.RawMessage) string {
	var va storagev1.VolumeAttachment
	if len(object) == 0 || json.Unmarshal(object, &va) != nil || va.Spec.Source.PersistentVolumeName == nil {
		return ""
	}
	return fmt.Sprintf(" of volume %s on node %s", *va.Spec.Source.PersistentVolumeName, va.Spec.NodeName)
}

// itemOf is the item at the index of the JSON list; nil if the list is shorter.
func itemOf(list json.RawMessage, at string) json.RawMessage {
	var items []json.RawMessage
	i, err := strconv.Atoi(at)
	if err != nil || json.Unmarshal(list, &items) != nil || i < 0 || i >= len(items) {
		return nil
	}
	return items[i]
}

// valueName names the value that a patch adds or removes: a text, a taint, or a volume. For a
// list that the patch creates it names the list's first item.
func valueName(f finding.Finding, value json.RawMessage) string {
	if item := itemOf(value, "0"); item != nil {
		value = item
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	var taint corev1.Taint
	if json.Unmarshal(value, &taint) == nil && taint.Key != "" {
		return taint.ToString()
	}
	var entry corev1.AttachedVolume
	switch err := json.Unmarshal(value, &entry); {
	case err == nil && entry.Name != "" && entry.Name == f.Volume:
		return "volume " + volumeName(f)
	case err == nil && entry.Name != "":
		return "volume " + string(entry.Name)
	}
	return string(value)
}

// forbids has, for a kind of repair, the words in which a finding forbids a person to do the
// same.
var forbids = map[Kind]*regexp.Regexp{
	StripFinalizer:         regexp.MustCompile(`take (?:its|the|their)? ?finalizers? off`),
	DeleteAttachment:       regexp.MustCompile(`delete (?:its|the|a) VolumeAttachments?(?: again)?`),
	DeleteFencedAttachment: regexp.MustCompile(`delete (?:its|the|a) VolumeAttachments?(?: again)?`),
	Republish:              regexp.MustCompile(`patch status\.attached`),
	CyclePod:               regexp.MustCompile(`\bdelete the pod`),
}

// neverByHand adds "by hand" to a warning against what the proposed repair does: only without the
// guards it is forbidden.
func neverByHand(never string, kind Kind) string {
	words := forbids[kind]
	if words == nil {
		return never
	}
	return words.ReplaceAllString(never, "$0 by hand")
}
