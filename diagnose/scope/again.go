package scope

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

const (
	// justWritten is how old the controller's last write of a volumesAttached may be for the
	// node to be read again. A judgement: managed fields have whole seconds.
	justWritten = 3 * time.Second
	// justAttached is the age up to which a VolumeAttachment may have been attached only
	// since the nodes were read. A judgement: storage systems that attach at all do it within
	// minutes.
	justAttached = 30 * time.Minute
	// More changing nodes than this are ordinary: a controller attaches to many at a time.
	nodesReadAgain = 16
)

// NodesToReadAgain returns the places in the list of the nodes whose volumesAttached the
// controller has just written, and of those that may have got an entry since they were read.
func NodesToReadAgain(o *snapshot.Objects, now time.Time) []int {
	attached := sets.New[string]()
	for _, va := range o.VolumeAttachments {
		if va.Status.Attached && va.DeletionTimestamp == nil && now.Sub(va.CreationTimestamp.Time) <= justAttached {
			attached.Insert(va.Name)
		}
	}
	var written, unlisted []int
	for i, node := range o.Nodes {
		writer, at := facts.VolumesAttachedWriter(node)
		switch {
		case facts.MayBeController(writer) && !at.IsZero() && now.Sub(at.Time) <= justWritten:
			written = append(written, i)
		case len(attached) > 0 && lacks(node, attached):
			unlisted = append(unlisted, i)
		}
	}
	var nodes []int
	for _, some := range [][]int{written, unlisted} {
		if len(some) <= nodesReadAgain {
			nodes = append(nodes, some...)
		}
	}
	return nodes
}

// lacks reports whether the node has a volume in use that one of the VolumeAttachments has
// attached, and does not list it as attached. The VolumeAttachment may have been read after
// the node, and the controller updates the node's status only after seeing it.
func lacks(node *corev1.Node, attached sets.Set[string]) bool {
	return slices.ContainsFunc(node.Status.VolumesInUse, func(volume corev1.UniqueVolumeName) bool {
		if facts.Lists(node, volume) {
			return false
		}
		driver, handle, ok := reconcile.ParseCSI(volume)
		return ok && attached.Has(reconcile.VolumeAttachmentName(handle, driver, types.NodeName(node.Name)))
	})
}

// NodesWithoutAttachment returns the places in the list of the nodes that list a volume whose
// VolumeAttachment is not there. A controller that detaches takes the entry off the list and then
// deletes the VolumeAttachment: where the nodes were read before that, and the VolumeAttachments
// after it, another reading of the node lacks the entry. What the controller has just written is
// read again anyway.
func NodesWithoutAttachment(o *snapshot.Objects, now time.Time) []int {
	known, onNode := sets.New[string](), map[string]int{}
	for _, va := range o.VolumeAttachments {
		known.Insert(va.Name)
		onNode[va.Spec.NodeName]++
	}
	var nodes []int
	for i, node := range o.Nodes {
		entries := node.Status.VolumesAttached
		if _, at := facts.VolumesAttachedWriter(node); len(entries) <= onNode[node.Name] || now.Sub(at.Time) <= justWritten {
			continue // all have theirs, and no name has to be computed
		}
		if slices.ContainsFunc(entries, func(a corev1.AttachedVolume) bool {
			driver, handle, ok := reconcile.ParseCSI(a.Name)
			return ok && !known.Has(reconcile.VolumeAttachmentName(handle, driver, types.NodeName(node.Name)))
		}) {
			nodes = append(nodes, i)
		}
	}
	if len(nodes) > nodesReadAgain {
		return nil
	}
	return nodes
}
