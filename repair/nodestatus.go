package repair

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

const volumesAttachedPath = "/status/volumesAttached"

var patchNodeStatus = rung{
	kind:    PatchNodeStatus,
	codes:   []diagnose.Code{"VD301"},
	needs:   []Permission{patchNodeStatusOf("")},
	propose: proposeNodeStatus,
	undo:    undoNodeStatus,
}

// proposeNodeStatus adds the entry that a node's volumesAttached has lost.
//
// The controller replaces the whole list from its memory whenever any volume is
// attached to or detached from the node, so an entry lasts only if the
// controller holds the volume for attached: then its own next write lists it
// too. That is what the guards make sure of. volumesInUse is the kubelet's
// and is never written.
func proposeNodeStatus(v *View, f diagnose.Finding) (Repair, error) {
	node := v.Snapshot.Node(f.Node)
	if node == nil {
		return Repair{}, fmt.Errorf("node %q: %w", f.Node, ErrNotFound)
	}
	want := append(slices.Clone(node.Status.VolumesAttached), corev1.AttachedVolume{Name: f.Volume})
	after := node.DeepCopy()
	after.Status.VolumesAttached = want
	after.ResourceVersion = ""
	undo := nodeStatusPatch(after, removeEntry(after, len(want)-1)...)
	return Repair{
		Summary:  fmt.Sprintf("add volume %s to volumesAttached of node %s", volumeName(f), f.Node),
		Risk:     RiskLow,
		Do:       nodeStatusPatch(node, append(addEntry(node, f.Volume), mark(node.ObjectMeta, markOf(PatchNodeStatus, f.Code, f.Check))...)...),
		Undo:     &undo,
		PreImage: nodeStatusImage(node),
		Guards:   slices.Clone(nodeStatusGuards),
		Needs:    []Permission{patchNodeStatusOf(node.Name)},
		reads:    nodeStatusReads,
		again:    func(v *View) (Repair, error) { return proposeNodeStatus(v, f) },
		stands:   func(v *View) bool { return entryStands(v, node, f.Volume) },
		moot:     func(v *View) bool { return v.World.Desired[f.Pair()] == nil },
		version:  func(v *View) string { return nodeVersion(v, f.Node) },
		check:    func(object json.RawMessage) error { return checkVolumesAttached(object, want) },
	}, nil
}

func patchNodeStatusOf(name string) Permission {
	return Permission{Verb: VerbPatch, Resource: "nodes", Subresource: "status", Name: name}
}

// addEntry tests the list as a whole: the entry goes into exactly the list that
// the guards saw. An empty list is absent from the object, and a test for null
// is how a JSON patch says so.
func addEntry(node *corev1.Node, volume corev1.UniqueVolumeName) []patchOp {
	entry := corev1.AttachedVolume{Name: volume} // a CSI volume has no device path
	if len(node.Status.VolumesAttached) == 0 {
		return []patchOp{
			{"test", volumesAttachedPath, compact(nil)},
			{"add", volumesAttachedPath, compact([]corev1.AttachedVolume{entry})},
		}
	}
	return []patchOp{
		{"test", volumesAttachedPath, compact(node.Status.VolumesAttached)},
		{"add", volumesAttachedPath + "/-", compact(entry)},
	}
}

// removeEntry takes the entry at the index out of exactly this list.
func removeEntry(node *corev1.Node, index int) []patchOp {
	return []patchOp{
		{"test", volumesAttachedPath, compact(node.Status.VolumesAttached)},
		{Op: "remove", Path: fmt.Sprintf("%s/%d", volumesAttachedPath, index)},
	}
}

func nodeStatusPatch(node *corev1.Node, ops ...patchOp) Operation {
	return Operation{
		Verb: VerbPatch,
		Target: corev1.ObjectReference{
			APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID, ResourceVersion: node.ResourceVersion,
		},
		Subresource: "status",
		Patch:       patchOf(node.ObjectMeta, ops...),
	}
}

// nodeStatusFields are those of a node that a repair of its status writes.
type nodeStatusFields struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"metadata,omitzero"`
	Status struct {
		VolumesAttached []corev1.AttachedVolume `json:"volumesAttached"`
	} `json:"status"`
}

func nodeStatusImage(node *corev1.Node) json.RawMessage {
	var image nodeStatusFields
	if before, marked := node.Annotations[markAnnotation]; marked {
		image.Metadata.Annotations = map[string]string{markAnnotation: before}
	}
	image.Status.VolumesAttached = append([]corev1.AttachedVolume{}, node.Status.VolumesAttached...)
	return compact(image)
}

// checkVolumesAttached holds the API server's answer against the list that was
// meant: an admission plugin may have had other ideas.
func checkVolumesAttached(object json.RawMessage, want []corev1.AttachedVolume) error {
	var after nodeStatusFields
	if err := json.Unmarshal(object, &after); err != nil {
		return fmt.Errorf("read the API server's answer: %w", err)
	}
	if got := after.Status.VolumesAttached; !slices.Equal(got, want) {
		return fmt.Errorf("the API server would store volumesAttached %v, not %v", got, want)
	}
	return nil
}

// entryStands says whether the node that was written to still lists the volume.
func entryStands(v *View, written *corev1.Node, volume corev1.UniqueVolumeName) bool {
	node := v.Snapshot.Node(nodeName(written))
	return node != nil && node.UID == written.UID && entryIndex(node, volume) >= 0
}

// nodeVersion is "" where the node is gone.
func nodeVersion(v *View, name types.NodeName) string {
	if node := v.Snapshot.Node(name); node != nil {
		return node.ResourceVersion
	}
	return ""
}

func entryIndex(node *corev1.Node, volume corev1.UniqueVolumeName) int {
	return slices.IndexFunc(node.Status.VolumesAttached, func(a corev1.AttachedVolume) bool { return a.Name == volume })
}

// csiOf is the driver and handle of the finding's volume.
func csiOf(v *View, f diagnose.Finding) (driver, handle string, ok bool) {
	if row := v.World.Desired[f.Pair()]; row != nil {
		return row.Spec.CSI()
	}
	return reconcile.ParseCSI(f.Volume)
}

// volumeName is the name that people know the volume by.
func volumeName(f diagnose.Finding) string {
	if f.PersistentVolume != "" {
		return f.PersistentVolume
	}
	return string(f.Volume)
}
