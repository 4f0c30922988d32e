package finding

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// VolumeRecord holds what each object has about a volume that a finding is about:
// who wants it, who holds it and who reports it. A picture is drawn from it.
type VolumeRecord struct {
	Volume           corev1.UniqueVolumeName `json:"volume"`
	PersistentVolume string                  `json:"persistentVolume,omitempty"`
	// Context is the cluster, in a report on several.
	Context string `json:"context,omitempty"`
	// Nodes are all that want, hold or report the volume, and those that the
	// findings name; sorted.
	Nodes []NodeRecord `json:"nodes"`
}

// NodeRecord is what is said of a volume on one node.
type NodeRecord struct {
	Node types.NodeName `json:"node"`
	// WantedBy are the pods, as namespace/name, for which the controller wants
	// the volume there; sorted.
	WantedBy []string `json:"wantedBy,omitempty"`
	// Attachments are the VolumeAttachments for the pair; sorted by name.
	Attachments []AttachmentRecord `json:"attachments,omitempty"`
	// VolumesAttached and VolumesInUse say whether the lists of that name in the
	// node's status have the volume. They are absent where no Node was read.
	VolumesAttached *bool `json:"volumesAttached,omitempty"`
	VolumesInUse    *bool `json:"volumesInUse,omitempty"`
}

// AttachmentRecord is what a VolumeAttachment says.
type AttachmentRecord struct {
	Name     string `json:"name"`
	Attached bool   `json:"attached"`
	Deleting bool   `json:"deleting"`
}

// keepRecords drops the records of volumes that no finding is about any more. A copy
// of the report keeps them.
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
