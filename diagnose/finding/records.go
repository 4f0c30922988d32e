package finding

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// VolumeRecord is the state of a finding's volume on each node: who wants it, holds it and
// reports it. Pictures are drawn from it.
type VolumeRecord struct {
	Volume           corev1.UniqueVolumeName `json:"volume"`
	PersistentVolume string                  `json:"persistentVolume,omitempty"`
	// Context is the cluster, in a report on several.
	Context string `json:"context,omitempty"`
	// Nodes are all nodes that want, hold or report the volume, and those that the findings
	// name; sorted.
	Nodes []NodeRecord `json:"nodes"`
}

// NodeRecord is the state of a volume on one node.
type NodeRecord struct {
	Node types.NodeName `json:"node"`
	// WantedBy are the pods, as namespace/name, for which the controller wants
	// the volume there; sorted.
	WantedBy []string `json:"wantedBy,omitempty"`
	// Attachments are the VolumeAttachments for the pair; sorted by name.
	Attachments []AttachmentRecord `json:"attachments,omitempty"`
	// VolumesAttached and VolumesInUse report whether the lists with those names in the node's
	// status have the volume. They are nil where no Node was read.
	VolumesAttached *bool `json:"volumesAttached,omitempty"`
	VolumesInUse    *bool `json:"volumesInUse,omitempty"`
}

// AttachmentRecord is the state of a VolumeAttachment.
type AttachmentRecord struct {
	Name     string `json:"name"`
	Attached bool   `json:"attached"`
	Deleting bool   `json:"deleting"`
}

// keepRecords drops the records of volumes without a finding. It does not change a copy of the
// report.
func (r *Report) keepRecords() {
	type volume struct {
		context string
		name    corev1.UniqueVolumeName
	}
	about := sets.New[volume]()
	for _, f := range r.Findings {
		about.Insert(volume{f.Context, f.Volume})
	}
	r.Volumes = slices.DeleteFunc(slices.Clone(r.Volumes), func(v VolumeRecord) bool { return !about.Has(volume{v.Context, v.Volume}) })
}
