package repair

import (
	"encoding/json"
	"slices"
	"testing"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
)

// TestPruneNamesItsEntry: the removal takes exactly the entry off, its inverse puts it back
// where it was, and neither changes a list in which another entry stands there by now.
func TestPruneNamesItsEntry(t *testing.T) {
	apply := func(op Operation, list []corev1.AttachedVolume) ([]corev1.AttachedVolume, error) {
		node := &corev1.Node{}
		node.UID, node.Status.VolumesAttached = "u", list
		patch, err := jsonpatch.DecodePatch(op.byHand())
		if err != nil {
			t.Fatal(err)
		}
		after, err := patch.Apply(Compact(node))
		if err != nil {
			return nil, err
		}
		var fields image
		err = json.Unmarshal(after, &fields)
		return fields.Status.VolumesAttached, err
	}
	all := []corev1.AttachedVolume{{Name: "a"}, {Name: "b", DevicePath: "/dev/b"}, {Name: "c"}}
	for length := 1; length <= len(all); length++ {
		for index := range length {
			list := all[:length]
			node := &corev1.Node{}
			node.UID, node.ResourceVersion, node.Status.VolumesAttached = "u", "1", list
			do, undo := takingEntry(node, index, "mark")
			taken, err := apply(do, list)
			if err != nil || !slices.Equal(taken, withoutEntry(list, index)) {
				t.Errorf("entry %d of %d: %v, %v", index, length, taken, err)
			}
			if restored, err := apply(undo, taken); err != nil || !slices.Equal(restored, list) {
				t.Errorf("entry %d of %d put back: %v, %v", index, length, restored, err)
			}
			moved := append([]corev1.AttachedVolume{{Name: "new"}}, list...)
			if after, err := apply(do, moved); err == nil {
				t.Errorf("entry %d of %d taken off a list that has changed: %v", index, length, after)
			}
			if after, err := apply(undo, append([]corev1.AttachedVolume{{Name: "new"}}, taken...)); err == nil {
				t.Errorf("entry %d of %d put into a list that has changed: %v", index, length, after)
			}
		}
	}
}
