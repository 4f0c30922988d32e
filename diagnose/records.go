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

// records are the records of the volumes that the findings are about, sorted.
func records(view *facts.View, findings []finding.Finding) []finding.VolumeRecord {
	nodes := map[corev1.UniqueVolumeName]sets.Set[types.NodeName]{}
	for i := range findings {
		volume, node := findings[i].Volume, findings[i].Node
		if volume == "" {
			continue
		}
		if nodes[volume] == nil {
			nodes[volume] = nodesOf(view, volume)
		}
		if node != "" {
			nodes[volume].Insert(node)
		}
	}
	made := make([]finding.VolumeRecord, 0, len(nodes))
	for volume, on := range nodes {
		record := finding.VolumeRecord{Volume: volume, Nodes: []finding.NodeRecord{}}
		if pv := view.World.Volume(volume); pv != nil {
			record.PersistentVolume = pv.Name
		}
		for _, node := range sets.List(on) {
			record.Nodes = append(record.Nodes, nodeRecord(view.Snapshot, view.World, reconcile.VolumeNode{Volume: volume, Node: node}))
		}
		made = append(made, record)
	}
	slices.SortFunc(made, func(a, b finding.VolumeRecord) int { return cmp.Compare(a.Volume, b.Volume) })
	return made
}

// nodesOf are the nodes that have the volume in either world, or in use.
func nodesOf(view *facts.View, volume corev1.UniqueVolumeName) sets.Set[types.NodeName] {
	nodes := sets.New[types.NodeName]()
	for _, d := range view.Plan.OfVolume(volume) {
		nodes.Insert(d.Node)
	}
	for _, pair := range view.InUseOn(volume) {
		nodes.Insert(pair.Node)
	}
	return nodes
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
