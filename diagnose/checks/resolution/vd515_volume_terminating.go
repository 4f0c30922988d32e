package resolution

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var VolumeTerminating = check.Check{
	Code:        "VD515",
	Name:        "volume-terminating",
	Title:       "A persistent volume has been Terminating for long: its claim, its provisioner or a finalizer keeps it",
	Severity:    finding.Warning,
	Needs:       []snapshot.Kind{snapshot.Pods, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments},
	OfNamespace: true,
	Yields:      []check.Yield{{To: "VD101", Key: check.OfPersistentVolume}, {To: "VD103", Key: check.OfPersistentVolume}},
	Never:       "take the finalizers off: the disk then stays in the storage system, and no object names it",
	Run:         runVolumeTerminating,
}

// The finalizers of those who delete disks (external-provisioner; the persistent volume
// controller for plugins in the tree, pkg/controller/volume/persistentvolume).
const (
	provisionersFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"
	controllersFinalizer  = "kubernetes.io/pv-controller"
)

func runVolumeTerminating(p *check.Run) {
	told := toldOfAttachment(p)
	for _, pv := range p.Snapshot.Volumes {
		if !goes(pv) || p.Age(*pv.DeletionTimestamp) <= claimDeletionGrace {
			continue
		}
		detaches := func(va *storagev1.VolumeAttachment) bool {
			return va.DeletionTimestamp != nil && p.Age(*va.DeletionTimestamp) <= claimDeletionGrace
		}
		if told[pv.Name] || boundTo(p.View, pv) == nil && slices.ContainsFunc(p.AttachmentsNaming(pv.Name), detaches) {
			continue // the volume goes once the detach has ended
		}
		if len(p.AttachmentsNaming(pv.Name)) == 0 && slices.ContainsFunc(pv.Finalizers, func(f string) bool { return strings.HasPrefix(f, reconcile.AttacherFinalizerPrefix) }) {
			continue // pv-finalizer-without-va
		}
		if !toldOfClaim(p.View, pv) {
			volumeTerminating(p, pv)
		}
	}
}

// toldOfAttachment are the volumes of which pv-terminating-va-exists tells because of a
// VolumeAttachment.
func toldOfAttachment(p *check.Run) map[string]bool {
	told := map[string]bool{}
	for _, va := range p.Attachments() {
		waits := len(p.WaitingHere(va.VolumeNode)) > 0
		if va.DeletionTimestamp == nil && (waits && refusedForDeletion(p.View, va) || !waits && p.KeepsDeletedVolume(va)) {
			told[facts.VolumeName(va.VolumeAttachment)] = true
		}
	}
	return told
}

// toldOfClaim reports whether another check tells of the claim that the volume is bound to:
// claim-terminating, or pv-terminating-va-exists where a pod runs with it.
func toldOfClaim(p *facts.View, pv *corev1.PersistentVolume) bool {
	claim := boundTo(p, pv)
	return claim != nil && (claim.DeletionTimestamp != nil && p.Age(*claim.DeletionTimestamp) > claimDeletionGrace || len(runWith(p, pv)) > 0)
}

func volumeTerminating(p *check.Run, pv *corev1.PersistentVolume) {
	f := finding.Finding{
		Subject: facts.PvObject(pv), PersistentVolume: pv.Name, Since: pv.DeletionTimestamp,
		Evidence: []finding.Evidence{
			{Object: "persistentvolume/" + pv.Name, Field: "metadata.finalizers", Value: strings.Join(pv.Finalizers, ", ")},
			{Object: "persistentvolume/" + pv.Name, Field: "status.phase", Value: string(pv.Status.Phase)},
		},
	}
	holds := func(who, detail, why string) {
		f.Message = fmt.Sprintf("Volume %s is stuck in Terminating: %s", pv.Name, who)
		f.Detail, f.Cause = detail, why
	}
	others := slices.DeleteFunc(slices.Clone(pv.Finalizers), func(f string) bool {
		return f == volumeProtection || f == provisionersFinalizer || f == controllersFinalizer
	})
	claim, attachments := boundTo(p.View, pv), p.AttachmentsNaming(pv.Name)
	switch {
	case claim == nil && len(attachments) > 0:
		begun := "begun"
		if facts.Deleting(attachments[0]) {
			begun = "ended"
		}
		holds("a VolumeAttachment on node "+attachments[0].Spec.NodeName+" names it", "no claim is bound to it", "what is attached has to be detached first, and that has not "+begun)
		f.SelfHeals.Because = "it goes once no VolumeAttachment names it"
		f.Advice = "see why it is not detached: a node that still has the volume in use, a controller that has just started, or another program that made the VolumeAttachment"
		f.AdviceCommands = []string{safetext.Kubectl("volume-doctor", "trace", "pv/"+pv.Name)}
	case claim != nil && slices.Contains(pv.Finalizers, volumeProtection):
		also := ""
		if claim.DeletionTimestamp != nil {
			also = fmt.Sprintf("the claim has been Terminating for %s, too", facts.Rounded(p.Age(*claim.DeletionTimestamp)))
		}
		holds(fmt.Sprintf("claim %s/%s is bound to it", claim.Namespace, claim.Name), also, "the volume was deleted while a claim has it; its deletion cannot be taken back")
		f.SelfHeals.Because = "it goes once the claim is deleted"
		f.Advice = "decide about the data before the claim is deleted: with the reclaim policy Delete the disk goes with it, Retain keeps it"
		if deletes(pv) {
			f.AdviceCommands = []string{retain(pv)}
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolume/" + pv.Name, Field: "spec.persistentVolumeReclaimPolicy", Value: "Delete"})
		}
	case slices.Contains(pv.Finalizers, volumeProtection):
		holds("its finalizer "+volumeProtection+" stays", "no claim is bound to it", reconcile.ControllerManager+" takes that finalizer off, and has not")
		f.SelfHeals.Because = reconcile.ControllerManager + " takes the finalizer off within seconds where it works"
		f.Advice = "{check} look whether " + reconcile.ControllerManager + " runs and leads, and what its log says about the volume"
		f.AdviceCommands = []string{safetext.Kubectl("get", "lease/"+reconcile.ControllerManager, "-n", metav1.NamespaceSystem)}
	case len(others) > 0:
		holds("finalizers of others keep it", "the finalizers are "+strings.Join(others, ", "), "whoever put the finalizers on has not taken them off")
		f.SelfHeals.Because = "it goes once whoever put the finalizers on takes them off"
		f.Advice = "{check} find the program that puts these finalizers on, and see whether it runs and what it waits for"
	case slices.Contains(pv.Finalizers, provisionersFinalizer), slices.Contains(pv.Finalizers, controllersFinalizer):
		diskStays(p.View, pv, &f, holds)
	default:
		return // nothing keeps it: the list is of the moment at which it goes
	}
	p.Report(f)
}

// boundTo is the claim that the volume is bound to.
func boundTo(p *facts.View, pv *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	claim := claimNamed(p, pv)
	if claim == nil || claim.UID != pv.Spec.ClaimRef.UID || claim.Spec.VolumeName != pv.Name {
		return nil
	}
	return claim
}

// claimNamed is the claim of the name in the volume's claimRef; nil where there is none.
func claimNamed(p *facts.View, pv *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	if pv.Spec.ClaimRef == nil {
		return nil
	}
	return p.Snapshot.Claim(types.NamespacedName{Namespace: pv.Spec.ClaimRef.Namespace, Name: pv.Spec.ClaimRef.Name})
}

// diskStays is about a volume that waits for its disk to be deleted.
func diskStays(p *facts.View, pv *corev1.PersistentVolume, f *finding.Finding, holds func(who, detail, why string)) {
	driver, who := "", reconcile.ControllerManager
	if pv.Spec.CSI != nil {
		driver = pv.Spec.CSI.Driver
		who = "the provisioner of " + driver
	}
	first := ""
	if deletes(pv) {
		first = "if the data on it may still be wanted, set its reclaim policy to Retain first, which keeps the disk; then "
		f.AdviceCommands = []string{retain(pv)}
	}
	f.SelfHeals.Because = "it goes once " + who + " has deleted the disk, which it tries again and again"
	failed := lastFailedDelete(p, pv)
	if failed == nil {
		holds("its disk is not deleted", who+" has not deleted its disk, and no recent event says why", who+" does not run, or hangs")
		f.Advice = first + "see whether " + who + " runs, and read its log about the volume"
		return
	}
	f.Said = facts.QuoteEvent(failed)
	holds("its disk cannot be deleted", who+" fails to delete its disk", who+" says why, in words of its own")
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolume/" + pv.Name, Field: "events", Value: lastSaid(failed)})
	f.Advice = first + "fix what the message names; the log of " + who + " has the rest"
	said := facts.Said{Driver: driver, Message: failed.Message, Volume: pv}
	if entry, known := facts.DetachMeans(driver, failed.Message); known {
		lookUps := p.LookUps(said)
		entry = p.Settled(entry, said)
		f.Cause = facts.WhatItMeans(entry, p.Age(*pv.DeletionTimestamp))
		f.Actor, f.KnownFrom = facts.WhoActs(entry), facts.KnownFrom(entry, lookUps...)
	}
}

// lastFailedDelete is what was last said of a disk that could not be deleted; nil where
// that is so old that it has been tried again since.
func lastFailedDelete(p *facts.View, pv *corev1.PersistentVolume) *corev1.Event {
	var last *corev1.Event
	for _, e := range facts.InOrder(p.Snapshot.EventsOf(pv.UID)) {
		if e.Reason == "VolumeFailedDelete" && p.Age(facts.EventTime(e)) <= facts.ProvisionSilence {
			last = e
		}
	}
	return last
}
