package repair

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// checkNotElsewhere keeps a volume that only one node at a time may use from being used by
// two. It refuses on any hint of another node, attached or not: the controller's memory and
// the storage system are not visible here.
func checkNotElsewhere(v *View, r *Repair) error {
	if mayBeShared(v, r) {
		return nil
	}
	volume := r.Finding.Volume
	other := func(va *storagev1.VolumeAttachment) bool { return va.Spec.NodeName != string(r.Finding.Node) }
	if va := attachmentFor(v, r, other); va != nil {
		return fmt.Errorf("VolumeAttachment %s for the same volume is on node %s", va.Name, va.Spec.NodeName)
	}
	for _, name := range v.reporting(volume) {
		node := v.Snapshot.Node(name)
		switch {
		case node == nil || name == r.Finding.Node:
		case v.Facts.Lists(node, volume):
			return fmt.Errorf("volumesAttached of node %s lists the volume", node.Name)
		case v.Facts.InUse(node, volume):
			return fmt.Errorf("volumesInUse of node %s lists the volume", node.Name)
		}
	}
	return nil
}

// mayBeShared reports whether the pod's own view of the volume, and each persistent volume with
// its handle, let several nodes have it.
func mayBeShared(v *View, r *Repair) bool {
	row := v.World.Desired.Find(r.Finding.Pair())
	return row != nil && row.Spec.MultiAttach() && !slices.ContainsFunc(v.World.Volumes(r.Finding.Volume), oneNodeOnly)
}

func oneNodeOnly(pv *corev1.PersistentVolume) bool {
	return !(&reconcile.VolumeSpec{PV: pv}).MultiAttach()
}

// attachmentIsFor reports whether a VolumeAttachment is about the repair's volume
// as the controller reads it: through its persistent volume alone.
func attachmentIsFor(v *View, va *storagev1.VolumeAttachment, r *Repair) bool {
	name, err := v.World.AttachmentVolume(va)
	return err == nil && name == r.Finding.Volume
}

// attachmentMayBeFor is attachmentIsFor, and also accepts an inline source, which the controller
// does not read, and the name that the controller computes: the persistent volume may be gone or
// may have been recreated for another disk.
func attachmentMayBeFor(v *View, va *storagev1.VolumeAttachment, r *Repair) bool {
	if attachmentIsFor(v, va, r) {
		return true
	}
	driver, handle, ok := csiOf(v, r.Finding)
	if !ok {
		return false
	}
	if inline := va.Spec.Source.InlineVolumeSpec; inline != nil && inline.CSI != nil {
		return inline.CSI.Driver == driver && inline.CSI.VolumeHandle == handle
	}
	return reconcile.IsVolumeAttachmentName(va.Name, handle, driver, types.NodeName(va.Spec.NodeName))
}

// attachmentFor is the first of these VolumeAttachments that may be about the repair's volume;
// nil for none.
func attachmentFor(v *View, r *Repair, among func(*storagev1.VolumeAttachment) bool) *storagev1.VolumeAttachment {
	driver, handle, _ := csiOf(v, r.Finding)
	return v.attachment(about{volume: r.Finding.Volume, disk: csiDisk{driver, handle}}, among,
		func(va *storagev1.VolumeAttachment) bool { return attachmentMayBeFor(v, va, r) })
}
