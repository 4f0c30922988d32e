package repair

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The kinds that guards rest on. A guard names every kind without which its answer could be
// another. A kind that is only shown as evidence is not named, so that no repair is refused
// because, for example, nobody may read the events.
var (
	onPods        = []snapshot.Kind{snapshot.Pods}
	onNodes       = []snapshot.Kind{snapshot.Nodes}
	onVolumes     = []snapshot.Kind{snapshot.Volumes}
	onAttachments = []snapshot.Kind{snapshot.VolumeAttachments}
	onLeases      = []snapshot.Kind{snapshot.Leases}
	onCSINodes    = []snapshot.Kind{snapshot.CSINodes}
	onCSIDrivers  = []snapshot.Kind{snapshot.CSIDrivers}

	// onUsers show who uses a volume on a node.
	onUsers = []snapshot.Kind{snapshot.Nodes, snapshot.Pods, snapshot.Claims, snapshot.Volumes}
	// onDisks show which disk VolumeAttachments are for.
	onDisks = []snapshot.Kind{snapshot.VolumeAttachments, snapshot.Volumes, snapshot.Nodes, snapshot.CSINodes, snapshot.CSIDrivers}
	// onWorlds are the kinds that make up the actual and the desired state of the world:
	// which node wants which volume, and where it is attached.
	onWorlds = []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes,
		snapshot.VolumeAttachments, snapshot.CSINodes, snapshot.CSIDrivers,
	}
	// onAttacher show whether an external-attacher is at work.
	onAttacher = union(onLeases, onCSINodes, onCSIDrivers)
)

// The guards that are the same in every repair, each with the kinds that it rests on, and how to
// make a refused repair safe. Guards that depend on the repair are made where the repair is.
var (
	// About the object that the repair writes to.
	sameAttachmentGuard = Guard{"same-attachment", onAttachments, checkSameAttachment, ""}
	sameVolumeGuard     = Guard{"same-volume", onVolumes, checkSameVolume, ""}
	sameNodeGuard       = Guard{"same-node", onNodes, checkSameNode, ""}
	samePodGuard        = Guard{"same-pod", onPods, checkSamePod, ""}
	notDeletingGuard    = Guard{"not-deleting", onAttachments, checkNotDeleting, ""}
	beingDeletedGuard   = Guard{"being-deleted", onAttachments, checkBeingDeleted, ""}
	nobodyElsesGuard    = Guard{"nobody-elses", onAttachments, checkNobodyElses, "{note} ask its owner what it is for"}
	onlyFinalizerGuard  = Guard{"only-finalizer", onAttachments, checkOnlyFinalizer, "{final} let the owner of the other finalizer remove it"}
	onlyAttachersGuard  = Guard{"only-finalizer", onVolumes, checkOnlyAttachersFinalizer, "{final} let the owner of the other finalizer remove it"}
	volumeDeletingGuard = Guard{"volume-deleting", onVolumes, checkVolumeDeleting, ""}
	notTouchedYetGuard  = Guard{"not-touched-yet", onVolumes, checkNotTouchedYet, ""}
	notInVainGuard      = Guard{"not-in-vain", onAttachments, checkNotInVain, ""}
	neverStartedGuard   = Guard{"never-started", onPods, checkNeverStarted, "{final} end the pod in the ordinary way"}
	hasControllerGuard  = Guard{"has-controller", onPods, checkHasController, "{note} decide whether anybody still needs the pod"}
	notGoingGuard       = Guard{"not-going", onPods, checkNotGoing, ""}

	// About the node.
	nodeReadyGuard     = Guard{"node-ready", onNodes, checkNodeReady, "{fix} bring the node back: it has to be Ready"}
	nodeManagedGuard   = Guard{"node-managed", onNodes, checkNodeManaged, ""}
	nodeInServiceGuard = Guard{"node-in-service", onNodes, checkNodeInService, ""}
	nodeLivesGuard     = Guard{"node-lives", union(onNodes, onAttachments), checkNodeLives, "{fix} bring the node back: it has to be Ready"}
	notAliveGuard      = Guard{notAlive, union(onNodes, onLeases, onCSINodes, onAttachments, onVolumes), checkNotAlive, "{note} leave the repair to the node, which is alive"}
	taintKnownGuard    = Guard{"release", nil, checkTaintKnown, ""}
	noStaleMountGuard  = Guard{"no-stale-mount", onWorlds, checkNoStaleMount, "{reversible} cordon the node; {reboot-node}, and only then {reversible} take the taint off"}
	sameNodeIDGuard    = Guard{"same-node-id", union(onAttachments, onCSINodes), checkSameNodeID, "{note} check at the provider which machine has the volume"}
	nodeIDGuard        = Guard{"node-id", union(onWorlds, onCSINodes), checkNodeID, ""}
	sameMachineGuard   = Guard{"same-machine", onWorlds, checkSameMachine, "{note} check at the provider which machine has the volume"}
	notOlderGuard      = Guard{"same-machine", union(onNodes, onAttachments), checkNotOlderThanNode, "{note} check at the provider which machine has the volume"}

	// About the node's own report.
	entryThereGuard     = Guard{"entry-there", onNodes, checkEntryThere, ""}
	entryMissingGuard   = Guard{"entry-missing", onNodes, checkEntryMissing, ""}
	listedOnceGuard     = Guard{"listed-once", onNodes, checkListedOnce, ""}
	notListedGuard      = Guard{"not-listed", onDisks, checkNotListed, ""}
	inUseGuard          = Guard{"in-use", onNodes, checkInUse, "{note} see that the kubelet reports the volume in use"}
	entryNotNeededGuard = Guard{"not-in-use", onUsers, checkEntryNotNeeded, "{note} see that the kubelet has unmounted the volume"}
	notInUseGuard       = Guard{"not-in-use", onDisks, checkNotInUse, "{note} see that the kubelet has unmounted the volume"}

	// About the nodes and pods that want the volume or have it.
	wantedGuard             = Guard{"wanted", onWorlds, checkWanted, ""}
	notWantedGuard          = Guard{"not-wanted", onWorlds, checkNotWanted, endUsers}
	noLivePodGuard          = Guard{"no-live-pod", onWorlds, checkNoLivePod, endUsers}
	onlyWaitingGuard        = Guard{"only-waiting", onWorlds, checkOnlyWaiting, endUsers}
	notMountedGuard         = Guard{"not-mounted", onWorlds, checkNotMounted, endUsers}
	notUsedThereGuard       = Guard{"not-used", onWorlds, checkNotUsedThere, notReported}
	notElsewhereGuard       = Guard{"not-elsewhere", onWorlds, checkNotElsewhere, "{final} end its pods on the other node"}
	notWantedElsewhereGuard = Guard{"not-wanted-elsewhere", onWorlds, checkNotWantedElsewhere, ""}
	controllerKeepsItGuard  = Guard{"controller-keeps-it", onWorlds, checkControllerKeepsIt, ""}

	// About the attachment.
	attachedGuard             = Guard{"attached", onWorlds, checkAttached, ""}
	noAttachErrorGuard        = Guard{"no-attach-error", onWorlds, checkNoAttachError, ""}
	noneOfPairGuard           = Guard{"none-of-pair", onWorlds, checkNoneOfPair, ""}
	noAttachmentGuard         = Guard{"no-attachment", onDisks, checkNoAttachment, ""}
	ownNameGuard              = Guard{"own-name", onDisks, checkOwnName, "{note} check at the storage system which disk is attached to the node"}
	onlyOneThereGuard         = Guard{"only-one-there", onDisks, checkOnlyOneThere, ""}
	notAttachedElsewhereGuard = Guard{"not-attached-elsewhere", onWorlds, checkNotAttachedElsewhere, "{final} end its pods on the other node"}
	nowhereAttachedGuard      = Guard{"nowhere-attached", onWorlds, checkNowhereAttached, ""}
	diskStaysGuard            = Guard{"disk-stays", union(onAttachments, onVolumes, []snapshot.Kind{snapshot.Claims}), checkDiskStays, "if its data is still needed, save the volume's object and then {change} set its reclaim policy to Retain"}
	disksStayGuard            = Guard{"disk-stays", onUsers, checkDisksStay, "{change} set the volume's reclaim policy to Retain, if its data is still needed"}
	volumeKnownGuard          = Guard{"volume-known", onWorlds, checkVolumeKnown, ""}
	volumeGoneGuard           = Guard{"volume-gone", union(onAttachments, onVolumes), checkVolumeGone, ""}

	// About the driver and its attacher.
	attachRequiredGuard   = Guard{"attach-required", onWorlds, checkAttachRequired, ""}
	driverOnNodeGuard     = Guard{"driver-on-node", onWorlds, checkDriverOnNode, "{fix} bring the driver's node plugin back"}
	holderKnownGuard      = Guard{"holder-known", onWorlds, checkHolderKnown, ""}
	driverIsAskedGuard    = Guard{guardDriverIsAsked, onDisks, checkDriverIsAsked, ""}
	attacherAtWorkGuard   = Guard{"attacher-at-work", union(onWorlds, onAttacher), checkAttacherAtWork, attacherBack}
	attacherOfTargetGuard = Guard{"attacher-at-work", union(onAttachments, onAttacher), checkAttacherOfTarget, attacherBack}
	attacherOfVolumeGuard = Guard{"attacher-at-work", union(onVolumes, onAttacher), checkAttacherOfVolume, attacherBack}
	noAttacherGuard       = Guard{"no-attacher", union(onAttachments, onLeases), checkNoAttacher, ""}
	nothingToDetachGuard  = Guard{"nothing-to-detach", union(onAttachments, onCSIDrivers), checkNothingToDetach, ""}
	saysDetachedGuard     = Guard{"driver-says-detached", onAttachments, checkSaysDetached, ""}
	saysNoMachineGuard    = Guard{"driver-says-no-machine", union(onAttachments, onNodes), checkSaysNoMachine, ""}

	// About the storage system's list.
	storageHasGuard   = Guard{"storage-has-it", onWorlds, checkStorageHas, "{note} get the storage system's list again"}
	storageLacksGuard = Guard{"storage-lacks-it", onWorlds, checkStorageLacks, "{note} get the storage system's list again"}
	storageLetGoGuard = Guard{guardStorageLetGo, onWorlds, checkStorageLetGo, ""}
)

// detachThere is a refusal that only a detach at the storage system lifts. That detach is
// safe only once nothing uses the disk on the VolumeAttachment's node, because the storage
// system does not check.
func detachThere(v *View, guard string, va *storagev1.VolumeAttachment, reason, then string) error {
	safe := "{final} detach the volume at the storage system" + then
	if err := v.Facts.StillUsed(va); err != nil {
		safe = fmt.Sprintf("{note} %s; only then %s", err, safe)
	}
	return &Refusal{Guard: guard, Reason: reason, SafeOnce: safe}
}

// These make a refused repair safe, for several guards each.
const (
	attacherBack = "{fix} bring the driver's controller pods back"
	endUsers     = "{final} end its pods there"
	notReported  = "{note} see that the kubelet no longer reports the volume in use"
)

// union are the kinds of all lists, each once, in the order in which they are read.
func union(lists ...[]snapshot.Kind) []snapshot.Kind {
	var kinds []snapshot.Kind
	for _, r := range snapshot.Resources() {
		if slices.ContainsFunc(lists, func(list []snapshot.Kind) bool { return slices.Contains(list, r.Kind) }) {
			kinds = append(kinds, r.Kind)
		}
	}
	return kinds
}

// restOn are all kinds that the guards rest on.
func restOn(guards []Guard) []snapshot.Kind {
	lists := make([][]snapshot.Kind, 0, len(guards))
	for _, g := range guards {
		lists = append(lists, g.Kinds)
	}
	return union(lists...)
}
