package storage

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
)

// heard is what csi-attacher saw of one volume on one node at one moment.
type heard struct {
	backend.Said
	name types.NodeName
	// node is nil where it is gone; machine is what csi-attacher looks for.
	node    *corev1.Node
	machine string
}

// heardBy is what the logs of csi-attacher still say of the view's volumes.
func heardBy(v *facts.View) map[corev1.UniqueVolumeName][]heard {
	all := map[corev1.UniqueVolumeName][]heard{}
	for _, l := range v.Snapshot.Backends {
		if l.Format != backend.Attacher {
			continue
		}
		for _, volume := range l.Volumes {
			for _, said := range volume.Said {
				va := v.Snapshot.VolumeAttachment(said.VolumeAttachment)
				if va == nil || !stillHolds(v, va, volume.ID, said) {
					continue
				}
				node := types.NodeName(va.Spec.NodeName)
				machine, _ := v.NodeID(node, va.Spec.Attacher)
				machine = cmp.Or(machine, va.Annotations[reconcile.NodeIDAnnotation], string(node))
				volumeName := reconcile.CSIVolumeName(va.Spec.Attacher, volume.ID)
				all[volumeName] = append(all[volumeName], heard{said, node, v.Snapshot.Node(node), machine})
			}
		}
	}
	for _, list := range all {
		slices.SortStableFunc(list, func(a, b heard) int { return a.At.Compare(b.At) })
	}
	return all
}

// stillHolds says that what csi-attacher saw is about this VolumeAttachment as it stands,
// and about the machine that the node is now. After such a line csi-attacher asks the
// driver again: where that succeeds, status.attached follows, or the object goes.
func stillHolds(v *facts.View, va *storagev1.VolumeAttachment, handle string, said backend.Said) bool {
	age := v.Snapshot.TakenAt.Sub(said.At)
	node := v.Snapshot.Node(types.NodeName(va.Spec.NodeName))
	if age < 0 || age > Fresh || va.Status.Attached == said.Found ||
		!reconcile.IsVolumeAttachmentName(va.Name, handle, va.Spec.Attacher, types.NodeName(va.Spec.NodeName)) {
		return false
	}
	if _, _, differ := v.OtherMachine(va); differ {
		return false
	}
	after := func(t metav1.Time) bool { return said.At.Sub(t.Time) >= snapshot.ClockTolerance }
	return after(va.CreationTimestamp) && (node == nil || after(node.CreationTimestamp)) && (va.DeletionTimestamp == nil || after(*va.DeletionTimestamp))
}

// hear adds to what the lists say of the volume, nil for nothing, what csi-attacher has
// seen since then. That it found the volume on a node is certain; of the other nodes it
// says nothing, so that the list counts there as before. That it did not find it proves
// nothing: the driver's list may lack the volume.
func (t *Truth) hear(name corev1.UniqueVolumeName, e *Entry) *Entry {
	for _, h := range t.heard[name] {
		if e == nil {
			_, handle, _ := reconcile.ParseCSI(name)
			e = &Entry{List: &backend.List{Format: backend.Attacher, Taken: h.At}, Volume: backend.Volume{ID: handle, Silent: true}}
		}
		switch isHere := func(o Holder) bool { return o.Machine == h.machine || o.Node != nil && o.Node == h.node }; {
		case h.At.Before(e.List.Taken):
		case !h.Found:
			e.missed = append(e.missed, h)
		case !slices.ContainsFunc(e.Holders, isHere):
			e.Holders = append(e.Holders, Holder{Attachment: backend.Attachment{Machine: h.machine}, Node: h.node, Known: h.node != nil, Seen: &h.At})
		}
	}
	return e
}

// Missed says when csi-attacher last did not find the volume on the node, though it counts
// as attached there; false where its log does not say so. The volume is not attached
// there, or the driver's list lacks it.
func (e *Entry) Missed(node types.NodeName) (at time.Time, missed bool) {
	if e == nil {
		return at, false
	}
	for _, h := range e.missed {
		if h.name == node {
			at, missed = h.At, true
		}
	}
	return at, missed
}

// logOf names the line of a log in a sentence.
func logOf(at time.Time) string {
	return "csi-attacher's log of " + facts.Stamp(metav1.NewTime(at))
}
