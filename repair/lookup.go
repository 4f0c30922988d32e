package repair

import (
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// lookup is what the guards would search the whole cluster for, each for each
// finding: of a large cluster in which much is broken the time would grow with
// the square. It is made when a guard first asks.
type lookup struct {
	strays strays
	// inUse are the nodes whose volumesInUse has a volume that the actual state of
	// the world does not have there.
	inUse map[corev1.UniqueVolumeName][]types.NodeName
	// volumes are the persistent volumes of a CSI disk, attached or not; nil until a
	// guard asks.
	volumes map[csiDisk][]*corev1.PersistentVolume
	// leases are those of external-attachers that were renewed last, by name.
	leases map[string]*coordinationv1.Lease
	// onNodes are the drivers that some node has.
	onNodes sets.Set[string]
}

// csiDisk is what a CSI driver knows a volume by.
type csiDisk struct{ driver, handle string }

// strays are the VolumeAttachments that the controller does not find by the name
// that it computes: there are few. Each is under all that its objects tell it to
// be about. All lists are in the order of the names.
type strays struct {
	byVolume map[string][]*storagev1.VolumeAttachment
	byDisk   map[csiDisk][]*storagev1.VolumeAttachment
	// unexplained have a name that was computed for none of these disks: it may
	// have been for any.
	unexplained []*storagev1.VolumeAttachment
}

const attacherLeasePrefix = "external-attacher-leader-"

func (v *View) lookup() *lookup {
	if v.looked == nil {
		v.looked = newLookup(v)
	}
	return v.looked
}

func newLookup(v *View) *lookup {
	l := &lookup{
		strays:  straysOf(v),
		inUse:   map[corev1.UniqueVolumeName][]types.NodeName{},
		leases:  map[string]*coordinationv1.Lease{},
		onNodes: sets.New[string](),
	}
	for _, node := range v.Snapshot.Nodes {
		for _, volume := range node.Status.VolumesInUse {
			if v.World.Actual[reconcile.VolumeNode{Volume: volume, Node: nodeName(node)}] == nil {
				l.inUse[volume] = append(l.inUse[volume], nodeName(node))
			}
		}
	}
	for _, lease := range v.Snapshot.Leases {
		if !strings.HasPrefix(lease.Name, attacherLeasePrefix) || lease.Spec.RenewTime == nil {
			continue
		}
		if last := l.leases[lease.Name]; last == nil || lease.Spec.RenewTime.After(last.Spec.RenewTime.Time) {
			l.leases[lease.Name] = lease
		}
	}
	for _, csiNode := range v.Snapshot.CSINodes {
		for _, d := range csiNode.Spec.Drivers {
			l.onNodes.Insert(d.Name)
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

func straysOf(v *View) strays {
	s := strays{map[string][]*storagev1.VolumeAttachment{}, map[csiDisk][]*storagev1.VolumeAttachment{}, nil}
	for _, va := range v.World.Strays() {
		if name, _ := sourceVolume(v, va); name != "" {
			s.byVolume[name] = append(s.byVolume[name], va)
		}
		explained := false
		for d := range disksOf(v, va) {
			s.byDisk[d] = append(s.byDisk[d], va)
			explained = explained || reconcile.IsVolumeAttachmentName(va.Name, d.handle, d.driver, types.NodeName(va.Spec.NodeName))
		}
		if !explained {
			s.unexplained = append(s.unexplained, va)
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
	strays := &v.lookup().strays
	known(a.volume)
	try(strays.byVolume[a.persistentVolume])
	if a.disk != (csiDisk{}) {
		if name := csiVolumeName(a.disk); name != a.volume {
			known(name)
		}
		try(strays.byDisk[a.disk])
		for i, va := range strays.unexplained {
			if among(va) && reconcile.IsVolumeAttachmentName(va.Name, a.disk.handle, a.disk.driver, types.NodeName(va.Spec.NodeName)) {
				try(strays.unexplained[i : i+1])
			}
		}
	}
	return first
}

// csiVolumeName is the unique name of the disk where it is attached.
func csiVolumeName(d csiDisk) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + d.driver + "^" + d.handle)
}
