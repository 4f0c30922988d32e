package diagnose

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// records are those of the volumes that the findings are about, sorted.
func records(s *snapshot.Snapshot, w *reconcile.World, findings []finding.Finding) []finding.VolumeRecord {
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
		return []finding.VolumeRecord{}
	}
	add := func(pair reconcile.VolumeNode) {
		if on := nodes[pair.Volume]; on != nil {
			on.Insert(pair.Node)
		}
	}
	for _, row := range w.Actual.Items() { // has every VolumeAttachment and every volumesAttached
		add(row.VolumeNode)
	}
	for _, row := range w.Desired.Items() {
		add(row.VolumeNode)
	}
	for _, node := range s.Nodes {
		for _, volume := range node.Status.VolumesInUse {
			add(reconcile.VolumeNode{Volume: volume, Node: facts.NodeName(node)})
		}
	}
	made := []finding.VolumeRecord{}
	for volume, on := range nodes {
		record := finding.VolumeRecord{Volume: volume, Nodes: []finding.NodeRecord{}}
		if pv := w.Volume(volume); pv != nil {
			record.PersistentVolume = pv.Name
		}
		for _, node := range sets.List(on) {
			record.Nodes = append(record.Nodes, nodeRecord(s, w, reconcile.VolumeNode{Volume: volume, Node: node}))
		}
		made = append(made, record)
	}
	slices.SortFunc(made, func(a, b finding.VolumeRecord) int { return cmp.Compare(a.Volume, b.Volume) })
	return made
}

func nodeRecord(s *snapshot.Snapshot, w *reconcile.World, pair reconcile.VolumeNode) finding.NodeRecord {
	record := finding.NodeRecord{Node: pair.Node}
	if wanted := w.Desired.Find(pair); wanted != nil {
		for _, pod := range wanted.Pods {
			record.WantedBy = append(record.WantedBy, pod.String())
		}
	}
	for _, va := range w.Attachments(pair) {
		record.Attachments = append(record.Attachments, finding.AttachmentRecord{Name: va.Name, Attached: va.Status.Attached, Deleting: va.DeletionTimestamp != nil})
	}
	if node := s.Node(pair.Node); node != nil {
		attached, inUse := facts.Lists(node, pair.Volume), slices.Contains(node.Status.VolumesInUse, pair.Volume)
		record.VolumesAttached, record.VolumesInUse = &attached, &inUse
	}
	return record
}
