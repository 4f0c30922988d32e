package repair

import (
	"encoding/json"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// lookup caches cluster-wide indexes for the guards, which may ask side by side. Without them
// each guard would search the whole cluster for each finding. It is built when a guard first
// asks.
type lookup struct {
	orphans orphans
	// inUse are the nodes whose volumesInUse lists the volume although the actual state of
	// the world does not have it there.
	inUse map[corev1.UniqueVolumeName][]types.NodeName
	// volumes are the persistent volumes of a CSI disk, attached or not.
	volumes func() map[csiDisk][]*corev1.PersistentVolume
	// listed has, for each node so far, the places of each volume in its volumesAttached, and
	// images the fields that a repair of that list writes.
	listed kept[*corev1.Node, map[corev1.UniqueVolumeName][]int]
	images kept[*corev1.Node, json.RawMessage]
}

// kept caches values by key.
type kept[K comparable, V any] struct {
	mutex sync.Mutex
	known map[K]V
}

// get is the value of the key, which find computes the first time. Two callers at the same time
// may both compute it.
func (k *kept[K, V]) get(key K, find func(K) V) V {
	k.mutex.Lock()
	value, known := k.known[key]
	k.mutex.Unlock()
	if known {
		return value
	}
	value = find(key)
	k.mutex.Lock()
	defer k.mutex.Unlock()
	if k.known == nil {
		k.known = map[K]V{}
	}
	k.known[key] = value
	return value
}

// csiDisk identifies a volume as its CSI driver does.
type csiDisk struct{ driver, handle string }

// orphans are the few VolumeAttachments that the controller does not find by the name that it
// computes. Each is indexed under every volume that it may be for.
type orphans struct {
	byVolume map[string][]*storagev1.VolumeAttachment
	byDisk   map[csiDisk][]*storagev1.VolumeAttachment
	// unexplained have a name that was computed for none of these disks: they may be for any
	// disk.
	unexplained []unexplained
	// named are, for each disk so far, the VolumeAttachments of unexplained whose name is
	// computed from the disk and their node. It is a cache: each guard of each finding asks, and
	// each answer takes a hash for each node.
	named kept[csiDisk, []*storagev1.VolumeAttachment]
}

// unexplained are VolumeAttachments of one node, each under the sum of its name.
type unexplained struct {
	node types.NodeName
	vas  map[reconcile.Sum]*storagev1.VolumeAttachment
}

// namedFor are those of unexplained whose name is computed from the disk.
func (o *orphans) namedFor(d csiDisk) []*storagev1.VolumeAttachment {
	return o.named.get(d, func(d csiDisk) (list []*storagev1.VolumeAttachment) {
		for _, u := range o.unexplained {
			if va := u.vas[reconcile.SumOf(d.handle, d.driver, u.node)]; va != nil {
				list = append(list, va) // no two objects have the same name
			}
		}
		return list
	})
}

func (v *View) lookup() *lookup {
	if v.looked == nil {
		v.looked = newLookup(v)
	}
	return v.looked
}

func newLookup(v *View) *lookup {
	l := &lookup{
		inUse:   map[corev1.UniqueVolumeName][]types.NodeName{},
		volumes: sync.OnceValue(func() map[csiDisk][]*corev1.PersistentVolume { return volumesByDisk(v.Snapshot) }),
	}
	l.orphans.index(v)
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
func (v *View) volumesOfDisk(d csiDisk) []*corev1.PersistentVolume { return v.lookup().volumes()[d] }

func volumesByDisk(s *snapshot.Snapshot) map[csiDisk][]*corev1.PersistentVolume {
	volumes := make(map[csiDisk][]*corev1.PersistentVolume, len(s.Volumes))
	for i, pv := range s.Volumes {
		driver, handle, ok := (&reconcile.VolumeSpec{PV: pv}).CSI()
		if d := (csiDisk{driver, handle}); ok && volumes[d] == nil {
			volumes[d] = s.Volumes[i : i+1 : i+1] // mostly the only one
		} else if ok {
			volumes[d] = append(volumes[d], pv)
		}
	}
	return volumes
}

// entries are the places of each volume in the node's volumesAttached.
func (v *View) entries(node *corev1.Node) map[corev1.UniqueVolumeName][]int {
	return v.lookup().listed.get(node, func(node *corev1.Node) map[corev1.UniqueVolumeName][]int {
		places := make(map[corev1.UniqueVolumeName][]int, len(node.Status.VolumesAttached))
		for i, entry := range node.Status.VolumesAttached {
			places[entry.Name] = append(places[entry.Name], i)
		}
		return places
	})
}

func (o *orphans) index(v *View) {
	o.byVolume = map[string][]*storagev1.VolumeAttachment{}
	o.byDisk = map[csiDisk][]*storagev1.VolumeAttachment{}
	places := map[types.NodeName]int{} // of each node in unexplained, from 1 on
	for _, va := range v.World.OrphanedAttachments() {
		if name, _ := sourceVolume(v, va); name != "" {
			o.byVolume[name] = append(o.byVolume[name], va)
		}
		explained := false
		for d := range disksOf(v, va) {
			o.byDisk[d] = append(o.byDisk[d], va)
			explained = explained || reconcile.IsVolumeAttachmentName(va.Name, d.handle, d.driver, types.NodeName(va.Spec.NodeName))
		}
		if sum, computed := reconcile.SumOfName(va.Name); computed && !explained {
			node := types.NodeName(va.Spec.NodeName)
			if places[node] == 0 {
				o.unexplained = append(o.unexplained, unexplained{node, map[reconcile.Sum]*storagev1.VolumeAttachment{}})
				places[node] = len(o.unexplained)
			}
			o.unexplained[places[node]-1].vas[sum] = va
		}
	}
}

// disksOf are all disks that the VolumeAttachment may be for: the disk of its PersistentVolume or
// inline volume, and each disk in its node's lists that hashes to its own name.
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

// about is a volume by the names under which VolumeAttachments may know it; a name that is
// not known is empty.
type about struct {
	volume           corev1.UniqueVolumeName
	persistentVolume string
	disk             csiDisk
}

// reporting are the nodes that may report the volume as attached or in use; sorted.
func (v *View) reporting(volume corev1.UniqueVolumeName) []types.NodeName {
	nodes := slices.Clone(v.lookup().inUse[volume])
	for _, d := range v.Plan.OfVolume(volume) {
		nodes = append(nodes, d.Node)
	}
	slices.Sort(nodes)
	return nodes
}

// attachment is the first VolumeAttachment by name for which both among and is are true; nil for
// none. It calls is only for the VolumeAttachments that may be about the volume.
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
