package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// listUndo is what both repairs of volumesAttached need to be taken back.
type listUndo struct {
	node   types.NodeName
	uid    types.UID
	rv     string
	volume corev1.UniqueVolumeName
	before nodeStatusFields
	// mark and after are the annotation and the list that were written.
	mark  string
	after []corev1.AttachedVolume
}

func newListUndo(w Written) (*listUndo, error) {
	target, f := w.Operation.Target, w.Finding
	u := &listUndo{node: types.NodeName(f.Node), uid: target.UID, rv: target.ResourceVersion, volume: corev1.UniqueVolumeName(f.Volume)}
	if err := json.Unmarshal(w.PreImage, &u.before); err != nil {
		return nil, fmt.Errorf("read what was there before: %w", err)
	}
	if u.volume == "" || u.node == "" || u.uid == "" {
		return nil, errors.New("it does not say which volume was written to which node")
	}
	return u, nil
}

// written is the node that was written to, as far as the journal tells.
func (u *listUndo) written(list []corev1.AttachedVolume) *corev1.Node {
	node := &corev1.Node{}
	node.Name, node.UID, node.ResourceVersion = string(u.node), u.uid, u.rv
	node.Annotations = map[string]string{MarkAnnotation: ""} // so that the patch has the mark
	node.Status.VolumesAttached = list
	return node
}

// refusal is that of a list that is not the one that was written.
func (u *listUndo) refusal(v *View) *Refusal {
	node := v.Snapshot.Node(u.node)
	if !slices.Equal(node.Status.VolumesAttached, u.after) {
		return &Refusal{"own-list", fmt.Sprintf("volumesAttached is not the list that was written, %v, but %v", u.after, node.Status.VolumesAttached)}
	}
	switch manager, _ := facts.VolumesAttachedWriter(node); {
	case manager == "":
		return &Refusal{"own-list", "the managed fields do not tell who has written volumesAttached"}
	case manager != FieldManager:
		return &Refusal{"own-list", fmt.Sprintf("%s has written volumesAttached since: the list is its own now", manager)}
	}
	if got := node.Annotations[MarkAnnotation]; got != u.mark {
		return &Refusal{GuardOurs, fmt.Sprintf("node %s does not have the annotation %s: %s, by which the write is known, but %q", u.node, MarkAnnotation, u.mark, got)}
	}
	return nil
}

// write restores the list by these steps.
func (u *listUndo) write(v *View, want []corev1.AttachedVolume, steps []patchOp) *Write {
	node := v.Snapshot.Node(u.node)
	ops := append(steps, unmark(node.ObjectMeta, u.mark, restorable(u.before.Metadata.Annotations[MarkAnnotation]))...)
	return &Write{
		Do:       nodeStatusPatch(node, ops...),
		PreImage: nodeStatusImage(node),
		Check:    func(after json.RawMessage) error { return checkVolumesAttached(after, want) },
	}
}

// undoNodeStatus takes one entry off a node's volumesAttached again.
func undoNodeStatus(w Written) (*Reversal, error) {
	u, err := newListUndo(w)
	if err != nil {
		return nil, err
	}
	before := u.before.Status.VolumesAttached
	u.mark = markOf(w.Repair, w.Finding.Code, w.Finding.Check)
	do, inverse, after := addingEntry(u.written(before), u.volume, u.mark)
	u.after = after
	return &Reversal{
		Summary: fmt.Sprintf("take volume %s off volumesAttached of node %s", u.volume, u.node),
		reads:   undoReads,
		do:      do, inverse: &inverse,
		gone: func(v *View) string {
			node := v.Snapshot.Node(u.node)
			switch {
			case node == nil || node.UID != u.uid:
				return fmt.Sprintf("node %s, as it was written to, is gone, and the entry with it", u.node)
			case v.Facts.Lists(node, u.volume):
				return ""
			case !w.Ended:
				return "the entry is not there: the write was announced but cut short, or the controller has taken it off since"
			}
			return "the entry is gone already"
		},
		prepare: func(v *View) (*Write, error) {
			if no := u.refusal(v); no != nil {
				return nil, no
			}
			node := v.Snapshot.Node(u.node)
			if v.Facts.InUse(node, u.volume) {
				return nil, &Refusal{"not-in-use", u.inUse(v)}
			}
			return u.write(v, before, removeEntry(u.after, len(before))), nil
		},
	}, nil
}

// undoReads are the kinds that tell whether the volume is in use.
var undoReads = []snapshot.Kind{snapshot.Nodes, snapshot.Pods, snapshot.Claims, snapshot.Volumes}

// inUse says why an entry must stay while the kubelet reports the volume in
// use. A kubelet that starts without the entry takes the volume for one that
// the controller does not guard, stops reporting it before it is unmounted, and
// the controller detaches it under the mount. That holds with a pod on it or
// without.
func (u *listUndo) inUse(v *View) string {
	reason := fmt.Sprintf("the kubelet of node %s reports the volume in use, and the entry protects the mount if it restarts", u.node)
	pods := v.World.LivePods(reconcile.VolumeNode{Volume: u.volume, Node: u.node})
	if len(pods) == 0 {
		return reason
	}
	return reason + "; used by " + strings.Join(facts.PodNames(pods), ", ")
}
