package repair

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// checkNotDeleting: what is on its way needs no second request.
func checkNotDeleting(v *View, r *Repair) error {
	if va := target(v, r); va.DeletionTimestamp != nil {
		return fmt.Errorf("VolumeAttachment %s is being deleted already", va.Name)
	}
	return nil
}

func checkBeingDeleted(v *View, r *Repair) error {
	if va := v.Snapshot.VolumeAttachment(r.Do.Target.Name); va == nil || va.DeletionTimestamp == nil {
		return fmt.Errorf("VolumeAttachment %s is not being deleted", r.Do.Target.Name)
	}
	return nil
}

// checkNobodyElses: a program that says that the object is its own may be at
// work with the volume, and should end that itself. The label of a restore says
// no such thing: it makes objects and looks after none.
func checkNobodyElses(v *View, r *Repair) error { return somebodyElses(target(v, r)) }

// somebodyElses says whose the VolumeAttachment is, if it is not the controller's.
func somebodyElses(va *storagev1.VolumeAttachment) error {
	if len(va.OwnerReferences) > 0 {
		owner := va.OwnerReferences[0]
		return fmt.Errorf("VolumeAttachment %s belongs to %s %s", va.Name, owner.Kind, owner.Name)
	}
	if manager := va.Labels[reconcile.ManagedByLabel]; manager != "" {
		return fmt.Errorf("VolumeAttachment %s is managed by %s", va.Name, manager)
	}
	for _, finalizer := range va.Finalizers {
		if finalizer != attacherFinalizer(va) {
			return fmt.Errorf("VolumeAttachment %s has the finalizer %s, whose owner means to do something first", va.Name, finalizer)
		}
	}
	return nil
}

// attacherFinalizer is what the attacher puts on the object before it first
// asks the driver.
func attacherFinalizer(va *storagev1.VolumeAttachment) string {
	return reconcile.AttacherFinalizer(va.Spec.Attacher)
}

// checkNotWanted: the controller would make the VolumeAttachment again on the
// same node, and the volume would be detached and attached for nothing.
func checkNotWanted(v *View, r *Repair) error {
	va := target(v, r)
	for _, pair := range pairs(v, va) {
		if v.World.Desired.Find(pair) != nil {
			return fmt.Errorf("the controller wants the volume on node %s%s, and would recreate the VolumeAttachment: "+
				"get the pods out first", va.Spec.NodeName, forPods(v.World.LivePods(pair)))
		}
	}
	return nil
}

// checkNoLivePod: what the controller wants and what a pod has mounted are two
// questions. A pod on a node that the controller does not manage, or with a
// claim to which its volume does not point back, is not wanted and alive.
func checkNoLivePod(v *View, r *Repair) error {
	va := target(v, r)
	if pods := livePods(v, va); len(pods) > 0 {
		return fmt.Errorf("the volume counts as used on node %s%s: get the pods out first", va.Spec.NodeName, forPods(pods))
	}
	return nil
}

func forPods(pods []*corev1.Pod) string {
	if len(pods) == 0 {
		return ""
	}
	return " for " + strings.Join(facts.PodNames(pods), ", ")
}

// checkDriverIsAsked: the attacher's finalizer is what makes a deletion wait for
// the driver. Without it the object goes at once, and with it the only record of
// what may be attached; with it and without the volume, the attacher cannot tell
// the driver what to detach, and the object never goes.
func checkDriverIsAsked(v *View, r *Repair) error {
	va := target(v, r)
	_, _, known := v.Facts.AskedDisk(va)
	holds := facts.AttacherHolds(va)
	switch {
	case va.Name == "":
		return nil // same-attachment says what has become of it
	case !holds && va.Status.Attached:
		return detachThere(v, guardDriverIsAsked, va, fmt.Sprintf("VolumeAttachment %s says attached and lacks the attacher's finalizer: it would go without a detach, "+
			"and the record with it", va.Name), "")
	case holds && !known:
		return detachThere(v, guardDriverIsAsked, va, fmt.Sprintf("the volume of VolumeAttachment %s does not exist, so that the attacher cannot tell the driver what to detach, "+
			"and holds the object", va.Name), "")
	}
	return nil
}

// checkOwnName: the attacher takes the handle from the volume as it now is. A
// volume that was recreated under the VolumeAttachment has another disk, which
// the deletion would detach. The name is the hash of the disk that was meant.
// One that somebody else made has another name; it must be younger than the
// volume, and not have the form of such a hash.
func checkOwnName(v *View, r *Repair) error {
	va := target(v, r)
	driver, handle, known := v.Facts.AskedDisk(va)
	if !known || reconcile.IsVolumeAttachmentName(va.Name, handle, driver, types.NodeName(va.Spec.NodeName)) {
		return nil
	}
	_, pv := sourceVolume(v, va)
	if slices.Contains(madeByOthers, r.Finding.Code) && pv != nil && !va.CreationTimestamp.Before(&pv.CreationTimestamp) {
		return nil
	}
	return fmt.Errorf("the name of VolumeAttachment %s is not that of disk %s on node %s: it may have been made for another disk, and the detach would ask for this one",
		va.Name, handle, va.Spec.NodeName)
}

// checkOnlyOneThere: the driver knows volumes and nodes, not VolumeAttachments.
// Where two are for one pair, the deletion of either detaches both.
func checkOnlyOneThere(v *View, r *Repair) error {
	va := target(v, r)
	there := func(other *storagev1.VolumeAttachment) bool {
		return other.Name != va.Name && other.Spec.NodeName == va.Spec.NodeName
	}
	if other := attachmentLike(v, va, there); other != nil {
		return fmt.Errorf("VolumeAttachment %s is for the same volume and node, and would lose it", other.Name)
	}
	return nil
}

// checkNotAttachedElsewhere: some drivers detach a volume from wherever it is,
// whatever node they are asked about. A volume that only one node may have must
// not be attached to another while this is tried, unless nothing uses it there
// either: several that are left over do not hold back one another.
func checkNotAttachedElsewhere(v *View, r *Repair) error {
	va := target(v, r)
	if manyNodes(v, va) {
		return nil
	}
	attachedElsewhere := func(other *storagev1.VolumeAttachment) bool {
		return other.Spec.NodeName != va.Spec.NodeName && other.Status.Attached
	}
	holds := func(other *storagev1.VolumeAttachment) bool {
		return sameVolume(v, va, other) && !unusedThere(v, other)
	}
	if other := v.attachment(aboutOf(v, va), attachedElsewhere, holds); other != nil {
		return fmt.Errorf("VolumeAttachment %s has the volume attached to node %s as well, and some drivers would detach it there", other.Name, other.Spec.NodeName)
	}
	return nil
}

// unusedThere reports whether the VolumeAttachment is the controller's own and that
// nothing uses its volume on its node, which lives and would say so: what must be
// true before it may be deleted itself.
func unusedThere(v *View, va *storagev1.VolumeAttachment) bool {
	node := v.Snapshot.Node(types.NodeName(va.Spec.NodeName))
	driver, handle, known := v.Facts.AskedDisk(va)
	if !known || !reconcile.IsVolumeAttachmentName(va.Name, handle, driver, types.NodeName(va.Spec.NodeName)) ||
		somebodyElses(va) != nil || checkLives(v, types.NodeName(va.Spec.NodeName)) != nil || v.Facts.HeartbeatStale(node) ||
		wanted(v, va) || len(livePods(v, va)) > 0 {
		return false
	}
	return !slices.ContainsFunc(volumesOf(v, va), func(name corev1.UniqueVolumeName) bool {
		return slices.Contains(node.Status.VolumesInUse, name) || facts.Lists(node, name)
	})
}

// sameVolume reports whether two VolumeAttachments may be about one disk.
func sameVolume(v *View, a, b *storagev1.VolumeAttachment) bool {
	if a.Spec.Attacher != b.Spec.Attacher {
		return false
	}
	nameA, _ := sourceVolume(v, a)
	nameB, _ := sourceVolume(v, b)
	if nameA != "" && nameA == nameB {
		return true
	}
	driver, handle, ok := v.Facts.AskedDisk(a)
	if !ok {
		return false
	}
	if otherDriver, other, known := v.Facts.AskedDisk(b); known {
		return driver == otherDriver && handle == other
	}
	return reconcile.IsVolumeAttachmentName(b.Name, handle, driver, types.NodeName(b.Spec.NodeName))
}

// attachmentLike is the first of these VolumeAttachments that may be about the
// same disk; nil where there is none.
func attachmentLike(v *View, va *storagev1.VolumeAttachment, among func(*storagev1.VolumeAttachment) bool) *storagev1.VolumeAttachment {
	return v.attachment(aboutOf(v, va), among, func(other *storagev1.VolumeAttachment) bool { return sameVolume(v, va, other) })
}

// aboutOf is what the VolumeAttachment is about for all that is known.
func aboutOf(v *View, va *storagev1.VolumeAttachment) about {
	var a about
	if name, err := v.World.AttachmentVolume(va); err == nil {
		a.volume = name
	}
	a.persistentVolume, _ = sourceVolume(v, va)
	a.disk.driver, a.disk.handle, _ = v.Facts.AskedDisk(va)
	return a
}

// manyNodes reports whether everything that names the disk lets several nodes have it.
func manyNodes(v *View, va *storagev1.VolumeAttachment) bool {
	driver, handle, ok := v.Facts.AskedDisk(va)
	if !ok {
		return false
	}
	pvs := v.volumesOfDisk(csiDisk{driver, handle})
	return len(pvs) > 0 && !slices.ContainsFunc(pvs, oneNodeOnly)
}

// checkSameNodeID: the attacher asks about the machine that the CSINode names
// now. If the volume was published to another, that one keeps it, and the driver
// is asked to take it from a machine that never had it.
func checkSameNodeID(v *View, r *Repair) error {
	va := target(v, r)
	if was, is, differ := v.Facts.OtherMachine(va); differ {
		return fmt.Errorf("the volume was published to %q, and the detach would ask about %q, which node %s is now", was, is, va.Spec.NodeName)
	}
	return nil
}

// checkAttacherOfTarget: without an attacher the object hangs between, and a pod
// that comes back to the node has to wait for it.
func checkAttacherOfTarget(v *View, r *Repair) error {
	return attacherAtWork(v, target(v, r).Spec.Attacher)
}

// checkDiskStays: the last VolumeAttachment is what keeps the disk of a volume
// that is let go. Who deleted the claim meant that, but may not know it yet.
func checkDiskStays(v *View, r *Repair) error {
	_, pv := sourceVolume(v, target(v, r))
	if pv == nil || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	if pv.DeletionTimestamp != nil || pv.Status.Phase == corev1.VolumeReleased {
		return fmt.Errorf("volume %s is being deleted with the reclaim policy Delete: once it is detached its disk is deleted with all data", pv.Name)
	}
	return nil
}

// checkNodeLives: of a node that is lost nothing proves that it has ceased to
// write, and from one that is out of service the controller detaches by itself.
// One that is being deleted lives, and may wait for just this attachment.
func checkNodeLives(v *View, r *Repair) error {
	if va := target(v, r); va.Name != "" {
		return checkLives(v, types.NodeName(va.Spec.NodeName))
	}
	return nil // same-attachment says what has become of it
}

func checkLives(v *View, name types.NodeName) error {
	node := v.Snapshot.Node(name)
	switch {
	case node == nil:
		return fmt.Errorf("node %s does not exist", name)
	case !reconcile.NodeReady(node):
		return fmt.Errorf("node %s is not Ready", name)
	case reconcile.OutOfService(node):
		return fmt.Errorf("node %s carries the taint %s", name, corev1.TaintNodeOutOfService)
	}
	return nil
}

// checkLivesOrOff: the user's or the cloud's word that the node is off is as good
// as what a live node reports.
func checkLivesOrOff(v *View, name types.NodeName) error {
	err := checkLives(v, name)
	if err == nil || slices.Contains(v.Consent.Fenced, name) || facts.ShutDownByCloud(v.Snapshot.Node(name)) {
		return nil
	}
	return fmt.Errorf("%w, and may still write to the volume: if you have made sure that it is powered off, or cut off from the storage, give --fenced %s", err, name)
}

// checkNotInUse: the attacher does not look at this list, and a device that
// vanishes under a mount takes its data with it.
func checkNotInUse(v *View, r *Repair) error {
	if va := target(v, r); reported(v, va, v.Facts.InUse) {
		return fmt.Errorf("the kubelet of node %s reports the volume in use", va.Spec.NodeName)
	}
	return nil
}

// checkNotListed: the controller holds what it lists for attached, and comes to
// it by itself. Until it noticed, its list would be a lie.
//
// A volume with a ^ in its handle it comes to never, and lists for as long as the
// VolumeAttachment is there.
func checkNotListed(v *View, r *Repair) error {
	if slices.Contains(neverDetached, r.Finding.Code) {
		return nil
	}
	if va := target(v, r); reported(v, va, v.Facts.Lists) {
		return fmt.Errorf("volumesAttached of node %s lists the volume: the controller knows of it", va.Spec.NodeName)
	}
	return nil
}

// reported reports whether the VolumeAttachment's node is there and has its volume, by any of
// its names, in such a list.
func reported(v *View, va *storagev1.VolumeAttachment, lists func(*corev1.Node, corev1.UniqueVolumeName) bool) bool {
	node := v.Snapshot.Node(types.NodeName(va.Spec.NodeName))
	return node != nil && slices.ContainsFunc(volumesOf(v, va), func(name corev1.UniqueVolumeName) bool { return lists(node, name) })
}

// checkNotOlderThanNode is checkSameMachine for the repair's own VolumeAttachment.
func checkNotOlderThanNode(v *View, r *Repair) error { return notOlderThanNode(v, target(v, r)) }

// offGuard holds on the user's word, or on the cloud's.
var offGuard = Guard{GuardFenced, onNodes, func(v *View, r *Repair) error {
	if facts.ShutDownByCloud(v.Snapshot.Node(r.Finding.Node)) {
		return nil
	}
	return fencedGuard.Check(v, r)
}, ""}
