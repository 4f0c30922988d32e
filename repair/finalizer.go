package repair

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var stripFinalizer = action{
	kind:     StripFinalizer,
	risk:     RiskHigh,
	codes:    slices.Sorted(maps.Keys(detachedProofs)),
	detaches: true,
	needs:    []Permission{RightTo(VerbPatch, snapshot.VolumeAttachments, "")},
	guards: []Guard{
		controllerGuard,
		findingGuard,
		sameAttachmentGuard,
		beingDeletedGuard,
		onlyFinalizerGuard,
		notWantedGuard,
		noLivePodGuard,
		storageLetGoGuard,
	},
	propose: onAttachment(proposeStrip),
}

// detachedProofs are, for each finding, the guards that give a reason to believe that nothing
// is attached.
var detachedProofs = map[finding.Code][]Guard{
	"VD103": {saysDetachedGuard},
	"VD108": {nothingToDetachGuard, noAttacherGuard},
	"VD115": {saysNoMachineGuard},
	"VD119": {volumeGoneGuard},
}

// proposeStrip removes the attacher's finalizer from a Terminating VolumeAttachment that no
// attacher will ever release. The object vanishes and no driver is asked: what the storage system
// has attached stays attached, and nothing in the cluster shows it any more. It therefore needs a
// reason to believe that nothing is attached, which differs by the finding, and always the user's
// consent.
func proposeStrip(v *View, f finding.Finding, va *storagev1.VolumeAttachment) (Repair, error) {
	index := slices.Index(va.Finalizers, attacherFinalizer(va))
	switch {
	case slices.Contains(madeAgain, f.Code) && len(f.AdviceCommands) > 0 && !slices.Contains(v.Consent.Detached, va.Name):
		return Repair{}, errors.New("the attacher detaches the disk once its PersistentVolume is made again, as is advised")
	case index < 0:
		return Repair{}, fmt.Errorf("VolumeAttachment %s does not have the finalizer %s", va.Name, attacherFinalizer(va))
	}
	path := fmt.Sprintf("/metadata/finalizers/%d", index)
	return Repair{
		SoThat: "it goes and no driver is asked to detach",
		Do: Operation{Verb: VerbPatch, Target: refTo(snapshot.VolumeAttachments, va), Patch: patchOf(va.ObjectMeta,
			patchOp{"test", path, Compact(va.Finalizers[index])}, patchOp{Op: "remove", Path: path})},
		WhyNot: "the object is gone with its finalizer; where the storage system still has the volume attached, orphan-backend-attachment (VD404) " +
			"reports it once the volume is wanted elsewhere",
		PreImage: wholeAttachment(va),
		Guards:   stripGuards(v, f, va),
		stands: func(v *View) bool {
			return letGo(v, va, func(now *storagev1.VolumeAttachment) bool { return !facts.AttacherHolds(now) })
		},
		pending: func(v *View) string { return detaching(v, va) },
		hits:    func(v *View) string { return hitBy(v, va) },
		check:   answered(func(after *storagev1.VolumeAttachment) error { return checkStripped(after, attacherFinalizer(va)) }),
	}, nil
}

// stripGuards depend on the finding's code and on the node as it was found. For a living node the
// objects show whether it uses the volume; for any other only the user or the storage system can.
func stripGuards(v *View, f finding.Finding, va *storagev1.VolumeAttachment) []Guard {
	guards := slices.Clone(detachedProofs[f.Code])
	if node := v.Snapshot.Node(types.NodeName(va.Spec.NodeName)); node != nil && reconcile.NodeReady(node) {
		guards = append(guards, nodeLivesGuard, notInUseGuard)
	} else {
		guards = append(guards, notAliveGuard, strippedOffGuard)
	}
	if !slices.Contains(driverTold, f.Code) {
		guards = append(guards, detachedGuard)
	}
	return append(guards, allowedGuard(StripFinalizer))
}

// madeAgain are the findings that advise to recreate the PersistentVolume, where they have
// the command for it: the driver is then asked to detach.
var madeAgain = []finding.Code{"VD119"}

// driverTold are the findings that rest on the driver's own message: that the volume is not
// attached, or that there is no such machine. For all others nobody has confirmed that the
// storage system does not have the volume attached there.
var driverTold = []finding.Code{"VD103", "VD115"}

func checkStripped(after *storagev1.VolumeAttachment, finalizer string) error {
	if slices.Contains(after.Finalizers, finalizer) {
		return fmt.Errorf("the API server would keep the finalizer %s", finalizer)
	}
	return nil
}

// checkOnlyFinalizer: the owner of any other finalizer on the object waits for something,
// too.
func checkOnlyFinalizer(v *View, r *Repair) error {
	va := target(v, r)
	switch {
	case va.Name == "":
		return nil // same-attachment says what has become of it
	case !facts.AttacherHolds(va):
		return fmt.Errorf("VolumeAttachment %s does not have the finalizer %s", va.Name, attacherFinalizer(va))
	case len(va.Finalizers) > 1:
		return fmt.Errorf("VolumeAttachment %s has other finalizers, whose owners wait for something too: %v", va.Name, va.Finalizers)
	}
	return nil
}

// Drivers word their refusals freely. These lists only confirm: a text that none of them
// matches proves nothing.
var (
	// saysDetached matches a driver's words for a volume that is attached nowhere, or not to
	// this node.
	saysDetached = regexp.MustCompile(`(?i)\balready (been )?detached\b|` +
		`\b(is|was) not (currently )?(attached|published)\b|\bnot attached to\b|` +
		`'available' state|` + // EC2: the volume is in the 'available' state
		`\b(volume|disk)s? (with )?(id )?(named )?\S{0,80} ?(was |is )?(not found|not ?exist|does ?n[o']t exist|could not be found)|` +
		`\bInvalidVolume\.NotFound\b|\bno such (volume|disk)\b`)
	// saysUsed matches its words for a volume that is attached after all.
	saysUsed = regexp.MustCompile(`(?i)\bin[- ]use\b|\bbusy\b|\bmounted\b|\bstill attached\b|\bcurrently attached to\b|\bdetaching\b`)
)

// checkSaysDetached: the driver itself reports, as a failure, that there is nothing to detach. A
// machine that it does not find proves nothing about the volume.
func checkSaysDetached(v *View, r *Repair) error {
	va := target(v, r)
	if va.Name == "" {
		return nil
	}
	if v.Facts.DetachError(va) == nil {
		return errors.New("the driver has not said why it does not detach the volume")
	}
	message := va.Status.DetachError.Message
	if saysUsed.MatchString(message) || facts.MachineNotFound(va.Spec.Attacher, message) || !saysDetached.MatchString(message) {
		return fmt.Errorf("the driver does not say that the volume is detached, but %q", message)
	}
	return nil
}

// checkSaysNoMachine: the Node is gone, and the driver does not find its machine
// either.
func checkSaysNoMachine(v *View, r *Repair) error {
	va := target(v, r)
	switch {
	case va.Name == "":
		return nil
	case v.Snapshot.Node(types.NodeName(va.Spec.NodeName)) != nil:
		return fmt.Errorf("there is a node %s", va.Spec.NodeName)
	case v.Facts.DetachError(va) == nil:
		return errors.New("the driver has not said why it does not detach the volume")
	}
	if message := va.Status.DetachError.Message; saysUsed.MatchString(message) || !facts.MachineNotFound(va.Spec.Attacher, message) {
		return fmt.Errorf("the driver does not say that the machine is gone, but %q", message)
	}
	return nil
}

// checkVolumeGone: the attacher does not find the volume, so that it cannot tell the driver
// what to detach. Where another PersistentVolume has the same disk, anything done to the disk
// is done to that volume.
func checkVolumeGone(v *View, r *Repair) error {
	va := target(v, r)
	name, pv := sourceVolume(v, va)
	switch {
	case va.Name == "":
		return nil
	case pv != nil || name == "":
		return fmt.Errorf("volume %s exists: the attacher can detach it", volumeName(r.Finding))
	}
	for _, pv := range v.Snapshot.Volumes {
		driver, handle, ok := (&reconcile.VolumeSpec{PV: pv}).CSI()
		if ok && reconcile.IsVolumeAttachmentName(va.Name, handle, driver, types.NodeName(va.Spec.NodeName)) {
			return &Refusal{Guard: "volume-gone", Reason: fmt.Sprintf("volume %s has the same disk: it may be attached to another node while this one has it", pv.Name),
				SafeOnce: "{note} check at the storage system to which node the disk is attached"}
		}
	}
	return nil
}

// checkNothingToDetach: the CSIDriver says that the driver attaches nothing.
func checkNothingToDetach(v *View, r *Repair) error {
	if va := target(v, r); va.Name != "" && v.Facts.AttachRequired(va.Spec.Attacher) {
		return fmt.Errorf("driver %s attaches its volumes", target(v, r).Spec.Attacher)
	}
	return nil
}

// checkNoAttacher: an attacher that lives takes its finalizer off itself, and
// one that is only away may come back to ask the driver.
func checkNoAttacher(v *View, r *Repair) error {
	va := target(v, r)
	if lease := v.Facts.AttacherLease(va.Spec.Attacher); lease != nil {
		return fmt.Errorf("lease %s/%s shows an external-attacher of driver %s, which can detach the volume", lease.Namespace, lease.Name, va.Spec.Attacher)
	}
	return nil
}
