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

// checkNotDeleting: an object that is being deleted needs no second request.
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

// checkNobodyElses: a program that has put an owner reference, its label or a finalizer on the
// object may be using the volume, and should end that itself. A restore's label does not count: a
// restore makes objects and then leaves them.
func checkNobodyElses(v *View, r *Repair) error { return somebodyElses(target(v, r)) }

// somebodyElses names the owner of the VolumeAttachment, where that is not the controller; else
// nil.
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

// attacherFinalizer is the finalizer that the attacher puts on the object before it first
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
			pods := v.World.LivePods(pair)
			return &Refusal{Guard: "not-wanted", SafeOnce: usersGone(pods),
				Reason: fmt.Sprintf("the controller wants the volume on node %s%s, and would recreate the VolumeAttachment", va.Spec.NodeName, forPods(pods))}
		}
	}
	return nil
}

// checkNoLivePod: whether the controller wants a volume and whether a pod has it mounted are
// two questions. A pod on a node that the controller does not manage, or with a claim to
// which its volume does not point back, is not wanted and yet runs.
func checkNoLivePod(v *View, r *Repair) error {
	va := target(v, r)
	if pods := livePods(v, va); len(pods) > 0 {
		return &Refusal{Guard: "no-live-pod", SafeOnce: usersGone(pods), Reason: fmt.Sprintf("the volume counts as used on node %s%s", va.Spec.NodeName, forPods(pods))}
	}
	return nil
}

// usersGone is how to make a detach safe that pods on the node forbid. Nobody has to end a pod
// that is already Terminating.
func usersGone(pods []*corev1.Pod) string {
	for _, pod := range pods {
		if pod.DeletionTimestamp == nil {
			return endUsers
		}
	}
	if len(pods) == 0 {
		return endUsers
	}
	if pod := pods[0]; len(pod.Finalizers) > 0 {
		return fmt.Sprintf("{final} have whoever set the finalizers of pod %s take them off", facts.PodName(pod))
	}
	return fmt.Sprintf("{note} see why pod %s, which is Terminating already, does not end", facts.PodName(pods[0]))
}

func forPods(pods []*corev1.Pod) string {
	if len(pods) == 0 {
		return ""
	}
	return " for " + strings.Join(facts.PodNames(pods), ", ")
}

// checkDriverIsAsked: the attacher's finalizer makes a deletion wait for the driver. Without
// it the object vanishes immediately, and with it the only record of what may be attached.
// With the finalizer but without the volume, the attacher cannot tell the driver what to
// detach, and the object never vanishes.
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

// checkOwnName: the attacher takes the handle from the present volume. A volume that was
// recreated under the VolumeAttachment has another disk, which the deletion would detach. The
// object's name is the hash of the intended disk. An object that somebody else made has another
// name: it must be younger than the volume, and its name must not look like such a hash.
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

// checkOnlyOneThere: the driver knows volumes and nodes, not VolumeAttachments. Where two
// VolumeAttachments are for one pair, the deletion of either detaches both.
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

// checkNotAttachedElsewhere: some drivers detach a volume from every node, whatever node they are
// asked about. A ReadWriteOnce volume must not be attached to another node meanwhile, unless
// nothing uses it there either: several leftover attachments do not block one another.
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

// unusedThere reports whether the VolumeAttachment is the controller's own and nothing uses
// its volume on its node, which is alive and would show a use. These conditions must hold
// before it may be deleted itself.
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

// attachmentLike is the first of these VolumeAttachments that may be about the same disk; nil for
// none.
func attachmentLike(v *View, va *storagev1.VolumeAttachment, among func(*storagev1.VolumeAttachment) bool) *storagev1.VolumeAttachment {
	return v.attachment(aboutOf(v, va), among, func(other *storagev1.VolumeAttachment) bool { return sameVolume(v, va, other) })
}

// aboutOf has every name that is known for the VolumeAttachment's volume.
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

// checkSameNodeID: the attacher asks about the machine that the CSINode names now. A volume that
// was published to another machine stays there, and the driver is asked to take it from a machine
// that never had it.
func checkSameNodeID(v *View, r *Repair) error {
	va := target(v, r)
	if was, is, differ := v.Facts.OtherMachine(va); differ {
		return fmt.Errorf("the volume was published to %q, and the detach would ask about %q, which node %s is now", was, is, va.Spec.NodeName)
	}
	return nil
}

// checkAttacherOfTarget: without an attacher the object stays half deleted, and a pod that
// comes back to the node has to wait for it.
func checkAttacherOfTarget(v *View, r *Repair) error {
	return attacherAtWork(v, target(v, r).Spec.Attacher)
}

// checkDiskStays: the last VolumeAttachment keeps the disk of a volume without a claim from being
// deleted. Whoever deleted the claim asked for that, but may not be aware of it.
func checkDiskStays(v *View, r *Repair) error {
	_, pv := sourceVolume(v, target(v, r))
	if pv == nil || pv.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimDelete {
		return nil
	}
	switch {
	case pv.DeletionTimestamp != nil, pv.Status.Phase == corev1.VolumeReleased, pv.Status.Phase == corev1.VolumeFailed:
		return fmt.Errorf("volume %s is being deleted with the reclaim policy Delete: once it is detached its disk is deleted with all data", pv.Name)
	case pv.Spec.ClaimRef != nil && pv.Spec.ClaimRef.UID != "" && claimOf(v, pv) == nil:
		return fmt.Errorf("the claim of volume %s is gone and the reclaim policy is Delete: once it is detached its disk is deleted with all data", pv.Name)
	}
	return nil
}

// claimOf returns the claim that the volume is bound to; nil if that one is gone.
func claimOf(v *View, pv *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	claim := v.Facts.ClaimNamed(pv)
	if claim == nil || claim.UID != pv.Spec.ClaimRef.UID {
		return nil
	}
	return claim
}

// checkNodeLives: nothing proves that a lost node no longer writes, and from a node that is
// out of service the controller detaches by itself. A node that is being deleted is alive,
// and may wait for just this attachment.
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

// checkLivesOrOff holds if the node is alive, or if the user or the cloud says that it is off.
func checkLivesOrOff(v *View, name types.NodeName) error {
	err := checkLives(v, name)
	if elsewhere := aliveAs(v, name); elsewhere != nil {
		return elsewhere
	}
	if err == nil || slices.Contains(v.Consent.Fenced, name) || shutDownByCloud(v.Snapshot.Node(name)) {
		return nil
	}
	return fmt.Errorf("%w, and may still write to the volume: if you have made sure that it is powered off, or cut off from the storage, give --fenced %s", err, name)
}

// checkNotInUse: the attacher does not look at volumesInUse, and a device that vanishes under
// a mount takes its data with it.
func checkNotInUse(v *View, r *Repair) error {
	if va := target(v, r); reported(v, va, v.Facts.InUse) {
		return fmt.Errorf("the kubelet of node %s reports the volume in use", va.Spec.NodeName)
	}
	return nil
}

// checkNotListed: the controller takes each volume that it lists for attached, and detaches
// it by itself. A deletion would make its list wrong until it noticed.
//
// The controller never detaches a volume with a ^ in its handle, and lists it for as long as
// the VolumeAttachment exists.
func checkNotListed(v *View, r *Repair) error {
	if slices.Contains(neverDetached, r.Finding.Code) {
		return nil
	}
	if va := target(v, r); reported(v, va, v.Facts.Lists) {
		return fmt.Errorf("volumesAttached of node %s lists the volume: the controller knows of it", va.Spec.NodeName)
	}
	return nil
}

// reported reports whether the VolumeAttachment's node exists and lists the volume under any
// of its names.
func reported(v *View, va *storagev1.VolumeAttachment, lists func(*corev1.Node, corev1.UniqueVolumeName) bool) bool {
	node := v.Snapshot.Node(types.NodeName(va.Spec.NodeName))
	return node != nil && slices.ContainsFunc(volumesOf(v, va), func(name corev1.UniqueVolumeName) bool { return lists(node, name) })
}

// checkNotOlderThanNode applies notOlderThanNode to the repair's own VolumeAttachment.
func checkNotOlderThanNode(v *View, r *Repair) error { return notOlderThanNode(v, target(v, r)) }

// offGuard holds where the user or the cloud says that the node is off.
var offGuard = Guard{GuardFenced, onNodes, func(v *View, r *Repair) error {
	if shutDownByCloud(v.Snapshot.Node(r.Finding.Node)) {
		return nil
	}
	return fencedGuard.Check(v, r)
}, ""}
