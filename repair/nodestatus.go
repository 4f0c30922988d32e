package repair

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const volumesAttachedPath = "/status/volumesAttached"

var patchNodeStatus = action{
	kind:    PatchNodeStatus,
	risk:    RiskLow,
	codes:   []finding.Code{"VD301"},
	needs:   patchNodeStatuses,
	guards:  nodeStatusGuards,
	propose: onNode(proposeNodeStatus),
	undo:    undoNodeStatus,

	undoGuards: []Guard{entryNotNeededGuard},
}

var patchNodeStatuses = []Permission{RightTo(VerbPatch, snapshot.Nodes, "").of("status")}

// proposeNodeStatus adds the entry that a node's volumesAttached has lost.
//
// The entry is true as long as the controller takes the volume for attached, which the guards
// make sure of. Whether it lasts is another matter: the controller replaces the whole list
// whenever it attaches a volume to the node or detaches one, and on some releases it has
// forgotten to list this one (see facts.LostEntryCauses). volumesInUse belongs to the kubelet and
// is never written.
func proposeNodeStatus(v *View, f finding.Finding, node *corev1.Node) (Repair, error) {
	do, undo, want := addingEntry(node, f.Volume, entryMark(PatchNodeStatus, f.Code, f.Check, f.Volume))
	return Repair{
		Do:       do,
		Undo:     &undo,
		PreImage: v.statusImage(node),
		stands:   func(v *View) bool { now := sameNode(v, node); return now != nil && v.Facts.Lists(now, f.Volume) },
		moot:     func(v *View) bool { return v.World.Desired.Find(f.Pair()) == nil },
		check:    answered(func(after *image) error { return after.checkVolumesAttached(want) }),
		Lasts:    v.entryLasts(f, node),
	}, nil
}

// entryLasts says until when the entry stays; "" where nothing ends it.
func (v *View) entryLasts(f finding.Finding, node *corev1.Node) string {
	va := v.Snapshot.VolumeAttachment(facts.AttachmentName(f.Pair()))
	pod := v.Snapshot.Pod(types.NamespacedName{Namespace: f.Subject.Namespace, Name: f.Subject.Name})
	if va == nil || pod == nil {
		return ""
	}
	return v.Facts.LostEntry(node, facts.Attachment{VolumeAttachment: va, VolumeNode: f.Pair()}, pod).Lasts(node)
}

// addingEntry is the write that adds the entry to the node's list, its inverse,
// and the list that it leaves.
func addingEntry(node *corev1.Node, volume corev1.UniqueVolumeName, value string) (do, undo Operation, want []corev1.AttachedVolume) {
	list, entry := node.Status.VolumesAttached, corev1.AttachedVolume{Name: volume} // a CSI volume has no device path
	want = append(slices.Clone(list), entry)
	do = nodePatch(node, "status", append(appendTo(volumesAttachedPath, list, entry), mark(node.ObjectMeta, value)...)...)
	return do, nodePatch(laterNode(node), "status", removeEntry(want, len(want)-1)...), want
}

// removeEntry takes the entry at the index out of the list, if it still stands there. A test of
// the whole list would prove no more, and for a node with many such entries the patches would
// grow with the square of their number.
func removeEntry(list []corev1.AttachedVolume, index int) []patchOp {
	path := entryPath(index)
	return []patchOp{{"test", path, Compact(list[index])}, {Op: "remove", Path: path}}
}

func entryPath(index int) string { return fmt.Sprintf("%s/%d", volumesAttachedPath, index) }

// laterNode is the node in a later state, whose resourceVersion nobody knows yet.
func laterNode(node *corev1.Node) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID}}
}

func nodePatch(node *corev1.Node, subresource string, ops ...patchOp) Operation {
	return Operation{Verb: VerbPatch, Target: refTo(snapshot.Nodes, node), Subresource: subresource, Patch: patchOf(node.ObjectMeta, ops...)}
}

// statusImage is nodeStatusImage, computed once for all repairs of the node.
func (v *View) statusImage(node *corev1.Node) json.RawMessage {
	return v.lookup().images.get(node, nodeStatusImage)
}

func nodeStatusImage(node *corev1.Node) json.RawMessage {
	i := imageOf(node)
	i.Status.VolumesAttached = append([]corev1.AttachedVolume{}, node.Status.VolumesAttached...)
	return Compact(i)
}

// checkVolumesAttached compares the API server's answer with the intended list: an admission
// plugin may have changed it.
func (i *image) checkVolumesAttached(want []corev1.AttachedVolume) error {
	if got := i.Status.VolumesAttached; !slices.Equal(got, want) {
		return fmt.Errorf("the API server would store volumesAttached %v, not %v", got, want)
	}
	return nil
}

// sameNode is the current state of the node that was written to; nil where it is gone.
func sameNode(v *View, written *corev1.Node) *corev1.Node {
	node := v.Snapshot.Node(facts.NodeName(written))
	if node == nil || node.UID != written.UID {
		return nil
	}
	return node
}

// csiOf is the driver and handle of the finding's volume.
func csiOf(v *View, f finding.Finding) (driver, handle string, ok bool) {
	if row := v.World.Desired.Find(f.Pair()); row != nil {
		return row.Spec.CSI()
	}
	return reconcile.ParseCSI(f.Volume)
}

// volumeName is the name by which people know the volume.
func volumeName(f finding.Finding) string {
	if f.PersistentVolume != "" {
		return f.PersistentVolume
	}
	return string(f.Volume)
}
