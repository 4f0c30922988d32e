package repair

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
)

// listUndo has the state that taking back a repair of volumesAttached needs.
type listUndo struct {
	node   *corev1.Node // as it was before the write
	volume corev1.UniqueVolumeName
	// mark and after are the annotation and the list that were written.
	mark  string
	after []corev1.AttachedVolume
}

func newListUndo(w Written) (*listUndo, error) {
	node, err := nodeBefore(w)
	if err != nil {
		return nil, err
	}
	u := &listUndo{node: node, volume: corev1.UniqueVolumeName(w.Finding.Volume)}
	if u.volume == "" || node.Name == "" || node.UID == "" {
		return nil, errors.New("it does not say which volume was written to which node")
	}
	return u, nil
}

// nodeBefore is the finding's node before the write, as far as the journal has it.
func nodeBefore(w Written) (*corev1.Node, error) {
	before, err := imageBefore(w)
	if err != nil {
		return nil, err
	}
	node := &corev1.Node{}
	node.Name, node.UID, node.ResourceVersion = w.Finding.Node, w.Operation.Target.UID, w.Operation.Target.ResourceVersion
	// the patch needs the mark
	node.Annotations = map[string]string{MarkAnnotation: before.Metadata.Annotations[MarkAnnotation]}
	node.Spec.Taints, node.Status.VolumesAttached = before.Spec.Taints, before.Status.VolumesAttached
	return node, nil
}

// refusal is the Refusal where the list is not the one that was written.
func (u *listUndo) refusal(v *View) *Refusal {
	node := sameNode(v, u.node)
	if !slices.Equal(node.Status.VolumesAttached, u.after) {
		return &Refusal{Guard: "own-list", Reason: fmt.Sprintf("volumesAttached is not the list that was written, %v, but %v", u.after, node.Status.VolumesAttached)}
	}
	switch manager, _ := facts.VolumesAttachedWriter(node); {
	case manager == "":
		return &Refusal{Guard: "own-list", Reason: "the managed fields do not tell who has written volumesAttached"}
	case manager != FieldManager:
		return &Refusal{Guard: "own-list", Reason: fmt.Sprintf("%s has written volumesAttached since: the list is its own now", manager)}
	}
	if got := node.Annotations[MarkAnnotation]; got != u.mark {
		return &Refusal{Guard: GuardOurs, Reason: fmt.Sprintf("node %s does not have the annotation %s: %s, by which the write is known, but %q", node.Name, MarkAnnotation, u.mark, got)}
	}
	return nil
}

// write is the write that restores the list by these steps.
func (u *listUndo) write(v *View, want []corev1.AttachedVolume, steps []patchOp) *Write {
	node := sameNode(v, u.node)
	ops := append(steps, unmark(node.ObjectMeta, u.mark, u.node.Annotations[MarkAnnotation])...)
	return &Write{
		Do:       nodePatch(node, "status", ops...),
		PreImage: nodeStatusImage(node),
		Check:    answered(func(after *image) error { return after.checkVolumesAttached(want) }),
	}
}

// undoNodeStatus takes one entry off a node's volumesAttached again.
func undoNodeStatus(w Written) (*Reversal, error) {
	u, err := newListUndo(w)
	if err != nil {
		return nil, err
	}
	before := u.node.Status.VolumesAttached
	u.mark = entryMark(w.Repair, w.Finding.Code, w.Finding.Check, u.volume)
	do, inverse, after := addingEntry(u.node, u.volume, u.mark)
	u.after = after
	probe := &Repair{}
	probe.Finding.Volume, probe.Finding.Node = u.volume, facts.NodeName(u.node)
	return &Reversal{
		Summary: fmt.Sprintf("take volume %s off volumesAttached of node %s", cmp.Or(w.Finding.PersistentVolume, string(u.volume)), u.node.Name),
		do:      do, inverse: &inverse,
		gone: func(v *View) string {
			node := sameNode(v, u.node)
			switch {
			case node == nil:
				return fmt.Sprintf("node %s, as it was written to, is gone, and the entry with it", u.node.Name)
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
			if err := checkEntryNotNeeded(v, probe); err != nil {
				return nil, entryNotNeededGuard.refuse(err)
			}
			return u.write(v, before, removeEntry(u.after, len(before))), nil
		},
	}, nil
}

// checkEntryNotNeeded: an entry must stay while the kubelet reports the volume in use. A kubelet that
// starts without the entry counts the volume as not guarded by the controller and stops reporting
// it before it is unmounted. The controller then detaches it under the mount, with or without a
// pod that uses the volume.
func checkEntryNotNeeded(v *View, r *Repair) error {
	if !v.Facts.InUse(nodeOf(v, r), r.Finding.Volume) {
		return nil
	}
	reason := fmt.Sprintf("the kubelet of node %s reports the volume in use, and the entry protects the mount if it restarts", r.Finding.Node)
	if pods := v.World.LivePods(r.Finding.Pair()); len(pods) > 0 {
		reason += "; used by " + strings.Join(facts.PodNames(pods), ", ")
	}
	return errors.New(reason)
}
