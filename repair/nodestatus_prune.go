package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
)

var pruneNodeStatus = rung{
	kind:    PruneNodeStatus,
	codes:   []diagnose.Code{"VD302"},
	needs:   []Permission{patchNodeStatusOf("")},
	propose: proposePrune,
	undo:    undoPrune,
}

// proposePrune takes an entry off a node's volumesAttached that stands for
// nothing. The controller detaches at once what it holds for attached and
// nobody wants, so an entry that stays was written past it; a controller that
// starts would believe it, and hold the volume back from other nodes.
func proposePrune(v *View, f diagnose.Finding) (Repair, error) {
	node := v.Snapshot.Node(f.Node)
	if node == nil {
		return Repair{}, fmt.Errorf("node %q: %w", f.Node, ErrNotFound)
	}
	index := entryIndex(node, f.Volume)
	if index < 0 {
		return Repair{}, fmt.Errorf("volumesAttached of node %s: %w", f.Node, ErrNotFound)
	}
	if pods := v.World.LivePods(f.Pair()); len(pods) > 0 {
		return Repair{}, fmt.Errorf("pod %s/%s needs the entry to be true, not gone", pods[0].Namespace, pods[0].Name)
	}
	want := slices.Delete(slices.Clone(node.Status.VolumesAttached), index, index+1)
	entry := node.Status.VolumesAttached[index]
	after := node.DeepCopy()
	after.Status.VolumesAttached, after.ResourceVersion = want, ""
	undo := nodeStatusPatch(after, insertEntry(after, entry, index)...)
	return Repair{
		Summary:  fmt.Sprintf("take volume %s off volumesAttached of node %s", volumeName(f), f.Node),
		Risk:     RiskLow,
		Do:       nodeStatusPatch(node, append(removeEntry(node, index), mark(node.ObjectMeta, markOf(PruneNodeStatus, f.Code, f.Check))...)...),
		Undo:     &undo,
		PreImage: nodeStatusImage(node),
		Guards: []Guard{
			completeGuard(nodeStatusReads),
			settledGuard,
			findingGuard,
			{"same-node", checkSameNode},
			{"node-ready", checkNodeReady},
			{"node-managed", checkNodeManaged},
			{"node-in-service", checkNodeInService},
			{"listed-once", checkListedOnce},
			{"not-used", checkNotUsedThere},
			{"none-of-pair", checkNoneOfPair},
		},
		Needs:   []Permission{patchNodeStatusOf(node.Name)},
		reads:   nodeStatusReads,
		again:   func(v *View) (Repair, error) { return proposePrune(v, f) },
		stands:  func(v *View) bool { return entryGone(v, node, f.Volume) },
		moot:    func(v *View) bool { return v.World.Desired[f.Pair()] != nil },
		version: func(v *View) string { return nodeVersion(v, f.Node) },
		check:   func(object json.RawMessage) error { return checkVolumesAttached(object, want) },
	}, nil
}

func entryGone(v *View, written *corev1.Node, volume corev1.UniqueVolumeName) bool {
	node := v.Snapshot.Node(nodeName(written))
	return node != nil && node.UID == written.UID && entryIndex(node, volume) < 0
}

// insertEntry puts the entry back where it was.
func insertEntry(node *corev1.Node, entry corev1.AttachedVolume, index int) []patchOp {
	if len(node.Status.VolumesAttached) == 0 {
		return []patchOp{
			{"test", volumesAttachedPath, compact(nil)},
			{"add", volumesAttachedPath, compact([]corev1.AttachedVolume{entry})},
		}
	}
	return []patchOp{
		{"test", volumesAttachedPath, compact(node.Status.VolumesAttached)},
		{"add", fmt.Sprintf("%s/%d", volumesAttachedPath, index), compact(entry)},
	}
}

// checkListedOnce: of two entries for one volume nobody can say which is meant.
func checkListedOnce(v *View, r *Repair) error {
	count := 0
	for _, entry := range nodeOf(v, r).Status.VolumesAttached {
		if entry.Name == r.Finding.Volume {
			count++
		}
	}
	if count > 1 {
		return fmt.Errorf("volumesAttached of node %s lists the volume %d times", r.Finding.Node, count)
	}
	return nil
}

func undoPrune(w written) (*reversal, error) {
	var image nodeStatusFields
	if err := json.Unmarshal(w.intent.PreImage, &image); err != nil {
		return nil, fmt.Errorf("read what was there before: %w", err)
	}
	f, target := w.intent.Finding, w.intent.Operation.Target
	volume, name := corev1.UniqueVolumeName(f.Volume), types.NodeName(f.Node)
	before := image.Status.VolumesAttached
	index := slices.IndexFunc(before, func(a corev1.AttachedVolume) bool { return a.Name == volume })
	if index < 0 || name == "" || target.UID == "" {
		return nil, errors.New("it does not say which volume was taken off which node")
	}
	return &reversal{
		summary: fmt.Sprintf("put volume %s back on volumesAttached of node %s", volume, name),
		needs:   []Permission{patchNodeStatusOf(f.Node)},
		undone: func(v *View) bool {
			node := v.Snapshot.Node(name)
			return node != nil && node.UID == target.UID && entryIndex(node, volume) >= 0
		},
		prepare: func(v *View) (*write, error) {
			node := v.Snapshot.Node(name)
			switch {
			case node == nil || node.UID != target.UID:
				return nil, &Refusal{guardGone, fmt.Sprintf("node %s, as it was written to, is gone, and its list with it", name)}
			case entryIndex(node, volume) >= 0:
				return nil, &Refusal{guardGone, "the entry is there again"}
			case !slices.Equal(node.Status.VolumesAttached, slices.Delete(slices.Clone(before), index, index+1)):
				return nil, &Refusal{"own-list", fmt.Sprintf("volumesAttached is no longer the list that was written, but %v", node.Status.VolumesAttached)}
			}
			if manager := lastWriter(node); manager != "" && manager != FieldManager {
				return nil, &Refusal{"own-list", fmt.Sprintf("%s has written volumesAttached since: what it leaves out is gone", manager)}
			}
			ops := append(insertEntry(node, before[index], index),
				unmark(node.ObjectMeta, markOf(w.intent.Repair, f.Code, f.Check), image.Metadata.Annotations[markAnnotation])...)
			return &write{
				op:      nodeStatusPatch(node, ops...),
				intent:  Entry{PreImage: nodeStatusImage(node)},
				check:   func(after json.RawMessage) error { return checkVolumesAttached(after, before) },
				version: func(v *View) string { return nodeVersion(v, name) },
			}, nil
		},
	}, nil
}
