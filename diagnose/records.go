package diagnose

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// VolumeRecord is what each object says of a volume that a finding is about:
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

// records are those of the volumes that the findings are about, sorted.
func records(s *snapshot.Snapshot, w *reconcile.World, findings []Finding) []VolumeRecord {
	nodes := map[corev1.UniqueVolumeName]sets.Set[types.NodeName]{}
	for _, f := range findings {
		if f.Volume == "" {
			continue
		}
		if nodes[f.Volume] == nil {
			nodes[f.Volume] = sets.New[types.NodeName]()
		}
		if f.Node != "" {
			nodes[f.Volume].Insert(f.Node)
		}
	}
	if len(nodes) == 0 {
		return []VolumeRecord{}
	}
	add := func(pair reconcile.VolumeNode) {
		if on := nodes[pair.Volume]; on != nil {
			on.Insert(pair.Node)
		}
	}
	for pair := range w.Actual { // has every VolumeAttachment and every volumesAttached
		add(pair)
	}
	for pair := range w.Desired {
		add(pair)
	}
	for _, node := range s.Nodes {
		for _, volume := range node.Status.VolumesInUse {
			add(reconcile.VolumeNode{Volume: volume, Node: nodeName(node)})
		}
	}
	made := []VolumeRecord{}
	for volume, on := range nodes {
		record := VolumeRecord{Volume: volume, Nodes: []NodeRecord{}}
		if pv := w.Volume(volume); pv != nil {
			record.PersistentVolume = pv.Name
		}
		for _, node := range sets.List(on) {
			record.Nodes = append(record.Nodes, nodeRecord(s, w, reconcile.VolumeNode{Volume: volume, Node: node}))
		}
		made = append(made, record)
	}
	slices.SortFunc(made, func(a, b VolumeRecord) int { return cmp.Compare(a.Volume, b.Volume) })
	return made
}

func nodeRecord(s *snapshot.Snapshot, w *reconcile.World, pair reconcile.VolumeNode) NodeRecord {
	record := NodeRecord{Node: pair.Node}
	if wanted := w.Desired[pair]; wanted != nil {
		for _, pod := range wanted.Pods {
			record.WantedBy = append(record.WantedBy, pod.String())
		}
	}
	for _, va := range w.Attachments(pair) {
		record.Attachments = append(record.Attachments, AttachmentRecord{va.Name, va.Status.Attached, va.DeletionTimestamp != nil})
	}
	if node := s.Node(pair.Node); node != nil {
		attached, inUse := lists(node, pair.Volume), slices.Contains(node.Status.VolumesInUse, pair.Volume)
		record.VolumesAttached, record.VolumesInUse = &attached, &inUse
	}
	return record
}

// keepRecords drops the records of volumes that no finding is about any more.
func (r *Report) keepRecords() {
	type volume struct {
		context string
		name    corev1.UniqueVolumeName
	}
	about := sets.New[volume]()
	for _, f := range r.Findings {
		about.Insert(volume{f.Context, f.Volume})
	}
	r.Volumes = slices.DeleteFunc(r.Volumes, func(v VolumeRecord) bool { return !about.Has(volume{v.Context, v.Volume}) })
}
