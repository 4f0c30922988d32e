package reconcile

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/sidebyside"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/index"
)

// AttachState is the state of an attachment in the actual state of the world. A pair that is
// detached has no row there.
type AttachState string

// The states of an attachment. Only an Attached one holds back an attach
// elsewhere and is reported in the node's volumesAttached.
const (
	Attached  AttachState = "Attached"
	Uncertain AttachState = "Uncertain"
)

// AttachedVolume is one row of the actual state of the world.
type AttachedVolume struct {
	VolumeNode
	State AttachState
	// Spec is shared by all nodes of the volume, as upstream shares it. It is
	// nil where only a node status mentions the volume.
	Spec *VolumeSpec
	// DevicePath is shared by all nodes too: the last writer's is reported for
	// each of them.
	DevicePath string
	// MountedByNode reports whether the volume stands in the node's volumesInUse or is
	// AssumedMounted. Either holds back a detach.
	MountedByNode bool
	// AssumedMounted reports whether the controller takes an attachment that it knows
	// only from a VolumeAttachment for mounted until the node is next updated
	// (AddVolumeNode, without MountsNotAssumed).
	AssumedMounted bool
	// computedName reports whether Attachment has the computed name, which need not be
	// computed again to find it.
	computedName bool
	// Attachment is the VolumeAttachment of the pair: the one with the computed
	// name, else any other for the same volume and node; nil where there is none.
	Attachment *storagev1.VolumeAttachment

	// attachments are all for the pair, whatever their names.
	attachments []*storagev1.VolumeAttachment
}

// actualState is the actual state of the world while it is populated.
type actualState struct {
	attached *index.Set[VolumeNode, *AttachedVolume]
	// volumes holds the first row of each volume. Upstream keeps some facts once for a volume
	// and shares them among its nodes, so that one node's device path and spec become another
	// node's too.
	volumes *index.Set[corev1.UniqueVolumeName, *AttachedVolume]
	// orphans are World.OrphanedAttachments, unsorted.
	orphans []*storagev1.VolumeAttachment
	// assumesMounted reports whether rows may get AssumedMounted.
	assumesMounted bool
}

func newActualState(s *snapshot.Snapshot, assumesMounted bool) *actualState {
	return &actualState{
		assumesMounted: assumesMounted,
		attached:       index.NewSet(len(s.VolumeAttachments), func(row *AttachedVolume) VolumeNode { return row.VolumeNode }),
		volumes:        index.NewSet(len(s.VolumeAttachments), func(row *AttachedVolume) corev1.UniqueVolumeName { return row.Volume }),
	}
}

// add mirrors AddVolumeNode.
func (a *actualState) add(pair VolumeNode, state AttachState, spec *VolumeSpec, devicePath string) *AttachedVolume {
	row := a.attached.Find(pair)
	if row == nil {
		row = &AttachedVolume{VolumeNode: pair}
		a.attached.Put(row)
	}
	row.State = state
	first := a.volumes.Find(pair.Volume)
	if first == nil {
		first = row
		a.volumes.Put(row)
	}
	first.Spec, first.DevicePath = spec, devicePath
	return row
}

func (a *actualState) state(pair VolumeNode) AttachState {
	if row := a.attached.Find(pair); row != nil {
		return row.State
	}
	return ""
}

// rows completes each pair's row. An entry from a VolumeAttachment was added
// after the node's volumesInUse had been read, so it counts as mounted until
// they are read again.
func (a *actualState) rows(s *snapshot.Snapshot) *index.Set[VolumeNode, *AttachedVolume] {
	for _, node := range s.Nodes {
		for _, volume := range node.Status.VolumesInUse {
			if row := a.attached.Find(VolumeNode{volume, types.NodeName(node.Name)}); row != nil {
				row.MountedByNode = true
			}
		}
	}
	rows := a.attached.Items()
	sidebyside.Do(len(rows), func(i int) { rows[i].findAttachment(s) })
	for _, row := range rows {
		first := a.volumes.Find(row.Volume)
		row.Spec, row.DevicePath = first.Spec, first.DevicePath
		if row.State == Uncertain && !row.MountedByNode && a.assumesMounted {
			row.MountedByNode, row.AssumedMounted = true, true
		}
		for _, va := range row.attachments {
			if !row.computedName || va != row.Attachment {
				a.orphans = append(a.orphans, va)
			}
		}
	}
	return a.attached
}
