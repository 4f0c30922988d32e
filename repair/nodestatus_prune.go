package repair

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

var pruneNodeStatus = action{
	kind:  PruneNodeStatus,
	risk:  RiskLow,
	codes: []finding.Code{"VD302"},
	needs: patchNodeStatuses,
	guards: []Guard{
		controllerGuard,
		findingGuard,
		sameNodeGuard,
		nodeReadyGuard,
		nodeManagedGuard,
		nodeInServiceGuard,
		listedOnceGuard,
		notUsedThereGuard,
		noneOfPairGuard,
	},
	propose: onNode(proposePrune),
	undo:    undoPrune,

	undoGuards: pruneUndoGuards,
}

// proposePrune takes an entry off a node's volumesAttached whose volume is not attached there.
// The controller immediately detaches a volume that it takes for attached and nobody wants, so
// somebody else wrote an entry that stays. A controller that starts would believe it, and
// withhold the volume from other nodes.
func proposePrune(v *View, f finding.Finding, node *corev1.Node) (Repair, error) {
	places := v.entries(node)[f.Volume]
	if len(places) == 0 {
		return Repair{}, fmt.Errorf("volumesAttached of node %s: %w", f.Node, ErrNotFound)
	}
	list, index := node.Status.VolumesAttached, places[0]
	if pods := v.World.LivePods(f.Pair()); len(pods) > 0 {
		return Repair{}, fmt.Errorf("pod %s/%s needs the entry to be true, not gone", pods[0].Namespace, pods[0].Name)
	}
	do, undo := takingEntry(node, index, pruneMark(f.Code, f.Check, list[index]))
	return Repair{
		Do:       do,
		Undo:     &undo,
		PreImage: v.statusImage(node),
		stands:   func(v *View) bool { now := sameNode(v, node); return now != nil && !v.Facts.Lists(now, f.Volume) },
		moot:     func(v *View) bool { return v.World.Desired.Find(f.Pair()) != nil },
		check:    answered(func(after *image) error { return after.checkVolumesAttached(withoutEntry(list, index)) }),
	}, nil
}

// takingEntry is the write that takes the entry at the index off the node's list,
// and its inverse.
func takingEntry(node *corev1.Node, index int, value string) (do, undo Operation) {
	list := node.Status.VolumesAttached
	do = nodePatch(node, "status", append(removeEntry(list, index), mark(node.ObjectMeta, value)...)...)
	return do, nodePatch(laterNode(node), "status", restoreEntry(list, index)...)
}

// withoutEntry is the list that takingEntry leaves.
func withoutEntry(list []corev1.AttachedVolume, index int) []corev1.AttachedVolume {
	return slices.Delete(slices.Clone(list), index, index+1)
}

func pruneMark(code finding.Code, check string, entry corev1.AttachedVolume) string {
	value := entryMark(PruneNodeStatus, code, check, entry.Name)
	if entry.DevicePath != "" {
		value += " at " + entry.DevicePath
	}
	return value
}

// restoreEntry puts the entry that was at the index back into the list, if its neighbour
// still stands where it stood.
func restoreEntry(list []corev1.AttachedVolume, index int) []patchOp {
	path := entryPath(index)
	switch {
	case len(list) == 1:
		return appendTo(volumesAttachedPath, nil, list[0])
	case index+1 < len(list): // the next one has moved up
		return []patchOp{{"test", path, Compact(list[index+1])}, {"add", path, Compact(list[index])}}
	}
	return []patchOp{{"test", entryPath(index - 1), Compact(list[index-1])}, {"add", path, Compact(list[index])}}
}

// checkListedOnce: of two entries for one volume nobody can tell which one is meant.
func checkListedOnce(v *View, r *Repair) error {
	if count := len(v.entries(nodeOf(v, r))[r.Finding.Volume]); count > 1 {
		return fmt.Errorf("volumesAttached of node %s lists the volume %d times", r.Finding.Node, count)
	}
	return nil
}

var pruneUndoGuards = []Guard{controllerGuard, notUsedThereGuard, noneOfPairGuard, notElsewhereGuard}

// undoPrune puts the entry back. A wrong entry lets a kubelet use a device that is not there, so
// undo needs two proofs: that this very entry was taken off, and that still nothing uses the
// volume.
func undoPrune(w Written) (*Reversal, error) {
	u, err := newListUndo(w)
	if err != nil {
		return nil, err
	}
	before := u.node.Status.VolumesAttached
	index := slices.IndexFunc(before, func(a corev1.AttachedVolume) bool { return a.Name == u.volume })
	if index < 0 {
		return nil, errors.New("it does not say which volume was taken off which node")
	}
	u.mark = pruneMark(w.Finding.Code, w.Finding.Check, before[index])
	do, inverse := takingEntry(u.node, index, u.mark)
	u.after = withoutEntry(before, index)
	probe := &Repair{}
	probe.Finding.Volume, probe.Finding.Node = u.volume, facts.NodeName(u.node)
	probe.Guards = pruneUndoGuards
	return &Reversal{
		Summary: fmt.Sprintf("put volume %s back on volumesAttached of node %s", cmp.Or(w.Finding.PersistentVolume, string(u.volume)), u.node.Name),
		do:      do, inverse: &inverse,
		gone: func(v *View) string {
			node := sameNode(v, u.node)
			switch {
			case node == nil:
				return fmt.Sprintf("node %s, as it was written to, is gone, and its list with it", u.node.Name)
			case v.Facts.Lists(node, u.volume):
				return "the entry is there again"
			}
			return ""
		},
		prepare: func(v *View) (*Write, error) {
			if no := u.refusal(v); no != nil {
				return nil, no
			}
			if no := refusal(v, probe); no != nil {
				return nil, no
			}
			return u.write(v, before, restoreEntry(before, index)), nil
		},
	}, nil
}
