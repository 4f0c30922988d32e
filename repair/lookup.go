package repair

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// lookup caches cluster-wide indexes for the guards. Without them each guard would
// search the whole cluster for each finding. It is made when a guard first asks.
type lookup struct {
	orphans orphans
	// inUse are the nodes whose volumesInUse has a volume that the actual state of
	// the world does not have there.
	inUse map[corev1.UniqueVolumeName][]types.NodeName
	// volumes are the persistent volumes of a CSI disk, attached or not; nil until a
	// guard asks.
	volumes map[csiDisk][]*corev1.PersistentVolume
	// listed are the places of each volume in a node's volumesAttached, and images
	// the fields that a repair of that list writes, of the nodes asked about.
	listed map[*corev1.Node]map[corev1.UniqueVolumeName][]int
	images map[*corev1.Node]json.RawMessage
}

// csiDisk is what a CSI driver knows a volume by.
type csiDisk struct{ driver, handle string }

// orphans are the few VolumeAttachments that the controller does not find by the name
// that it computes. Each is indexed under every volume that it may be for.
type orphans struct {
	byVolume map[string][]*storagev1.VolumeAttachment
	byDisk   map[csiDisk][]*storagev1.VolumeAttachment
	// unexplained have a name that was computed for none of these disks: it may
	// have been for any. They are grouped by node.
	unexplained map[types.NodeName][]*storagev1.VolumeAttachment
	// named are those of unexplained with the name of the disk on their node, of the
	// disks asked about: each guard of each finding asks, and to tell takes a hash for
	// each node.
	named map[csiDisk][]*storagev1.VolumeAttachment
}

// namedFor are those of unexplained whose name is computed for the disk.
func (o *orphans) namedFor(d csiDisk) []*storagev1.VolumeAttachment {
	list, known := o.named[d]
	if !known {
		for node, vas := range o.unexplained {
			name := reconcile.AttachmentNameBytes(d.handle, d.driver, node)
			if i := slices.IndexFunc(vas, func(va *storagev1.VolumeAttachment) bool { return va.Name == string(name[:]) }); i >= 0 {
				list = append(list, vas[i]) // no two objects have one name
			}
		}
		o.named[d] = list
	}
	return list
}

func (v *View) lookup() *lookup {
	if v.looked == nil {
		v.looked = newLookup(v)
	}
	return v.looked
}

func newLookup(v *View) *lookup {
	l := &lookup{
		orphans: orphansOf(v),
		inUse:   map[corev1.UniqueVolumeName][]types.NodeName{},
		listed:  map[*corev1.Node]map[corev1.UniqueVolumeName][]int{},
		images:  map[*corev1.Node]json.RawMessage{},
	}
	for _, node := range v.Snapshot.Nodes {
		for _, volume := range node.Status.VolumesInUse {
			if v.World.Actual.Find(reconcile.VolumeNode{Volume: volume, Node: facts.NodeName(node)}) == nil {
				l.inUse[volume] = append(l.inUse[volume], facts.NodeName(node))
			}
		}
	}
	return l
}

// volumesOfDisk are the persistent volumes with the driver and the handle.
func (v *View) volumesOfDisk(d csiDisk) []*corev1.PersistentVolume {
	l := v.lookup()
	if l.volumes == nil {
		l.volumes = make(map[csiDisk][]*corev1.PersistentVolume, len(v.Snapshot.Volumes))
		for i, pv := range v.Snapshot.Volumes {
			driver, handle, ok := (&reconcile.VolumeSpec{PV: pv}).CSI()
			if d := (csiDisk{driver, handle}); ok && l.volumes[d] == nil {
				l.volumes[d] = v.Snapshot.Volumes[i : i+1 : i+1] // mostly the only one
			} else if ok {
				l.volumes[d] = append(l.volumes[d], pv)
			}
		}
	}
	return l.volumes[d]
}

// entries are the places of each volume in the node's volumesAttached.
func (v *View) entries(node *corev1.Node) map[corev1.UniqueVolumeName][]int {
	l := v.lookup()
	if l.listed[node] == nil {
		places := make(map[corev1.UniqueVolumeName][]int, len(node.Status.VolumesAttached))
		for i, entry := range node.Status.VolumesAttached {
			places[entry.Name] = append(places[entry.Name], i)
		}
		l.listed[node] = places
	}
	return l.listed[node]
}

func orphansOf(v *View) orphans {
	s := orphans{
		byVolume:    map[string][]*storagev1.VolumeAttachment{},
		byDisk:      map[csiDisk][]*storagev1.VolumeAttachment{},
		unexplained: map[types.NodeName][]*storagev1.VolumeAttachment{},
		named:       map[csiDisk][]*storagev1.VolumeAttachment{},
	}
	for _, va := range v.World.OrphanedAttachments() {
		if name, _ := sourceVolume(v, va); name != "" {
			s.byVolume[name] = append(s.byVolume[name], va)
		}
		explained := false
		for d := range disksOf(v, va) {
			s.byDisk[d] = append(s.byDisk[d], va)
			explained = explained || reconcile.IsVolumeAttachmentName(va.Name, d.handle, d.driver, types.NodeName(va.Spec.NodeName))
		}
		if !explained {
			node := types.NodeName(va.Spec.NodeName)
			s.unexplained[node] = append(s.unexplained[node], va)
		}
	}
	return s
}

// disksOf are all that the VolumeAttachment may be about by what it names, by
// what it carries with it, and by what its node reports under a name that hashes
// to its own.
func disksOf(v *View, va *storagev1.VolumeAttachment) sets.Set[csiDisk] {
	disks := sets.New[csiDisk]()
	for _, name := range volumesOf(v, va) {
		if driver, handle, ok := reconcile.ParseCSI(name); ok {
			disks.Insert(csiDisk{driver, handle})
		}
	}
	if _, pv := sourceVolume(v, va); pv != nil && pv.Spec.CSI != nil {
		disks.Insert(csiDisk{pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle})
	}
	if inline := va.Spec.Source.InlineVolumeSpec; inline != nil && inline.CSI != nil {
		disks.Insert(csiDisk{inline.CSI.Driver, inline.CSI.VolumeHandle})
	}
	return disks
}

// about is a volume by the names that VolumeAttachments may have it under; what
// is not known is empty.
type about struct {
	volume           corev1.UniqueVolumeName
	persistentVolume string
	disk             csiDisk
}

// reporting are the nodes that may report the volume, attached or in use; sorted.
func (v *View) reporting(volume corev1.UniqueVolumeName) []types.NodeName {
	nodes := slices.Clone(v.lookup().inUse[volume])
	for _, d := range v.Plan.OfVolume(volume) {
		nodes = append(nodes, d.Node)
	}
	slices.Sort(nodes)
	return nodes
}

// attachment is the first VolumeAttachment, in the order of their names, that is
// among those asked for and about the volume; nil where there is none. Whether it
// is about the volume is asked of all that may be.
func (v *View) attachment(a about, among, is func(*storagev1.VolumeAttachment) bool) *storagev1.VolumeAttachment {
	var first *storagev1.VolumeAttachment
	try := func(vas []*storagev1.VolumeAttachment) {
		for _, va := range vas {
			if (first == nil || va.Name < first.Name) && among(va) && is(va) {
				first = va
			}
		}
	}
	known := func(volume corev1.UniqueVolumeName) {
		for _, d := range v.Plan.OfVolume(volume) {
			try(v.World.Attachments(d.VolumeNode))
		}
	}
	orphans := &v.lookup().orphans
	known(a.volume)
	try(orphans.byVolume[a.persistentVolume])
	if a.disk != (csiDisk{}) {
		if name := reconcile.CSIVolumeName(a.disk.driver, a.disk.handle); name != a.volume {
			known(name)
		}
		try(orphans.byDisk[a.disk])
		try(orphans.namedFor(a.disk))
	}
	return first
}
