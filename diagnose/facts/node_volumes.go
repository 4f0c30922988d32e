package facts

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/index"
)

// nodeVolumes are the lists of a node's status as sets, for checks that look up each of many
// volumes: the time would otherwise grow with the square.
type nodeVolumes struct {
	attached, inUse sets.Set[corev1.UniqueVolumeName]
	// inTree are the attached volumes with an in-tree plugin's name, by DiskKey.
	inTree map[string][]corev1.UniqueVolumeName
}

var keptNodeVolumes KeptBy[string, *nodeVolumes]

func (p *View) nodeVolumes(node *corev1.Node) *nodeVolumes {
	return keptNodeVolumes.Of(p, node.Name, func(*View, string) *nodeVolumes {
		n := &nodeVolumes{attached: sets.Set[corev1.UniqueVolumeName]{}, inUse: sets.New(node.Status.VolumesInUse...), inTree: map[string][]corev1.UniqueVolumeName{}}
		for _, v := range node.Status.VolumesAttached {
			if n.attached.Has(v.Name) {
				continue
			}
			n.attached.Insert(v.Name)
			if _, disk, ok := InTreeName(v.Name); ok {
				n.inTree[DiskKey(disk)] = append(n.inTree[DiskKey(disk)], v.Name)
			}
		}
		return n
	})
}

// fewVolumes is the longest list that is searched entry by entry: that is faster than a set, and
// nearly all nodes have fewer entries.
const fewVolumes = 64

// Lists reports whether the node's status.volumesAttached names the volume.
func (p *View) Lists(node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	if len(node.Status.VolumesAttached) <= fewVolumes {
		return Lists(node, volume)
	}
	return p.nodeVolumes(node).attached.Has(volume)
}

// listings are the entries of the lists of all nodes, by volume.
type listings = map[corev1.UniqueVolumeName][]reconcile.VolumeNode

func newListings(all []reconcile.VolumeNode) listings {
	return index.New(all, func(pair reconcile.VolumeNode) corev1.UniqueVolumeName { return pair.Volume })
}

var keptListedOn Kept[listings]

// ListedOn are the pairs of the volume and a node whose status.volumesAttached names it.
func (p *View) ListedOn(volume corev1.UniqueVolumeName) []reconcile.VolumeNode {
	return keptListedOn.Of(p, func(p *View) listings {
		all := make([]reconcile.VolumeNode, 0, len(p.Snapshot.VolumeAttachments))
		for _, node := range p.Snapshot.Nodes {
			for i := range node.Status.VolumesAttached {
				all = append(all, reconcile.VolumeNode{Volume: node.Status.VolumesAttached[i].Name, Node: NodeName(node)})
			}
		}
		return newListings(all)
	})[volume]
}

var keptInUseOn Kept[listings]

// InUseOn are the pairs of the volume and a node whose status.volumesInUse names it.
func (p *View) InUseOn(volume corev1.UniqueVolumeName) []reconcile.VolumeNode {
	return keptInUseOn.Of(p, func(p *View) listings {
		all := make([]reconcile.VolumeNode, 0, len(p.Snapshot.VolumeAttachments))
		for _, node := range p.Snapshot.Nodes {
			for _, name := range node.Status.VolumesInUse {
				all = append(all, reconcile.VolumeNode{Volume: name, Node: NodeName(node)})
			}
		}
		return newListings(all)
	})[volume]
}

// InUse reports whether the node's status.volumesInUse names the volume.
func (p *View) InUse(node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	if len(node.Status.VolumesInUse) <= fewVolumes {
		return InUse(node, volume)
	}
	return p.nodeVolumes(node).inUse.Has(volume)
}

// DiskKey is equal for two disks that OneDisk may take for one.
func DiskKey(disk string) string { return strings.ToLower(strings.ToUpper(lastPart(disk))) }

// UnlistedInUse returns the volumes in use that the node does not list as attached, each
// once, in the order of the list.
func (p *View) UnlistedInUse(node *corev1.Node) []corev1.UniqueVolumeName {
	seen := map[corev1.UniqueVolumeName]bool{}
	return slices.DeleteFunc(slices.Clone(node.Status.VolumesInUse), func(volume corev1.UniqueVolumeName) bool {
		known := seen[volume] || p.Lists(node, volume)
		seen[volume] = true
		return known
	})
}
