package resolution

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var VolumeTerminating = check.Check{
	Code:        "VD515",
	Name:        "volume-terminating",
	Title:       "A persistent volume has been Terminating for long: its claim, its provisioner or a finalizer keeps it",
	Severity:    finding.Warning,
	Needs:       []snapshot.Kind{snapshot.Pods, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments},
	OfNamespace: true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD512"}, Match: ofEarlierClaim},
		{From: []finding.Code{"VD101", "VD103"}, Share: check.OfVolume, Match: keepsAttached},
	},
	Never: "take the finalizers off: the disk then stays in the storage system, and no object names it",
	Run:   runVolumeTerminating,
}

// The finalizers of the programs that delete disks (external-provisioner; the persistent volume
// controller for in-tree plugins, pkg/controller/volume/persistentvolume).
const (
	provisionersFinalizer = "external-provisioner.volume.kubernetes.io/finalizer"
	controllersFinalizer  = "kubernetes.io/pv-controller"
)

// aboutAttachment are the further kinds that are needed where a VolumeAttachment names the
// volume.
var aboutAttachment = []snapshot.Kind{snapshot.Nodes, snapshot.CSIDrivers, snapshot.Leases}

func runVolumeTerminating(p *check.Run) {
	attached := map[string][]facts.Attachment{}
	for _, va := range p.Attachments() {
		name := facts.VolumeName(va.VolumeAttachment)
		attached[name] = append(attached[name], va)
	}
	for _, pv := range p.Snapshot.Volumes {
		if !goes(pv) || p.Age(*pv.DeletionTimestamp) <= claimDeletionGrace || toldOfClaim(p.View, pv) {
			continue
		}
		if slices.ContainsFunc(attached[pv.Name], func(va facts.Attachment) bool { return toldOfAttachment(p.View, pv, va) }) {
			continue
		}
		if len(p.AttachmentsNaming(pv.Name)) > 0 && slices.ContainsFunc(aboutAttachment, func(k snapshot.Kind) bool { return !p.Snapshot.Complete(k) }) {
			continue // another check may report the VolumeAttachment
		}
		if len(p.AttachmentsNaming(pv.Name)) == 0 && slices.ContainsFunc(pv.Finalizers, func(f string) bool { return strings.HasPrefix(f, reconcile.AttacherFinalizerPrefix) }) {
			continue // pv-finalizer-without-va
		}
		volumeTerminating(p, pv, attached[pv.Name])
	}
}

// toldOfAttachment reports whether pv-terminating-va-exists reports the volume because of the
// VolumeAttachment, or the volume goes once its detach has ended.
func toldOfAttachment(p *facts.View, pv *corev1.PersistentVolume, va facts.Attachment) bool {
	if va.DeletionTimestamp != nil {
		return boundTo(p, pv) == nil && p.Age(*va.DeletionTimestamp) <= claimDeletionGrace
	}
	if len(p.WaitingHere(va.VolumeNode)) > 0 {
		return refusedForDeletion(p, va)
	}
	return p.KeepsDeletedVolume(va)
}

// toldOfClaim reports whether another check reports the volume's claim: claim-terminating, or
// pv-terminating-va-exists where a pod runs with it.
func toldOfClaim(p *facts.View, pv *corev1.PersistentVolume) bool {
	claim := boundTo(p, pv)
	return claim != nil && (claim.DeletionTimestamp != nil && p.Age(*claim.DeletionTimestamp) > claimDeletionGrace || len(runWith(p, pv)) > 0)
}

// whoPutsOn is the advice to find the programs that set the finalizers.
func whoPutsOn(finalizers []string) string {
	if len(finalizers) == 1 {
		if k, known := facts.KnownFinalizer(finalizers[0]); known {
			return fmt.Sprintf("{check} %s; where there is none, see whether the %s runs: it takes the finalizer off", k.Look, k.Program)
		}
		return fmt.Sprintf("{check} find the program that puts finalizer %s on, and see whether it runs and what it waits for", finalizers[0])
	}
	return fmt.Sprintf("{check} find the programs that put the finalizers %s on, and see whether they run and what they wait for", strings.Join(finalizers, ", "))
}

func volumeTerminating(p *check.Run, pv *corev1.PersistentVolume, attached []facts.Attachment) {
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
	claim := boundTo(p.View, pv)
	switch {
	case claim == nil && len(attached) > 0:
		va := attached[0]
		f.VolumeAttachment = va.Name
		f.SelfHeals.Because = "it goes once no VolumeAttachment names it"
		holds("a VolumeAttachment on node "+string(va.Node)+" names it", "no claim is bound to it", notDetached(p.View, va, &f))
		f.Advice = fmt.Sprintf("{check} see what keeps VolumeAttachment %s", va.Name)
		f.AdviceCommands = []string{safetext.Kubectl("describe", "volumeattachment/"+va.Name)}
		if f.Cause == leftAlone {
			f.Advice = step.RestartManager.Of() + fmt.Sprintf(": one that has just started detaches the volume from node %s", va.Node)
			f.AdviceCommands = []string{safetext.Kubectl("volume-doctor", "plan", "node/"+string(va.Node))}
		}
		keepDiskFirst(&f, pv) // once it is detached, nothing else keeps the disk
	case claim != nil && slices.Contains(pv.Finalizers, volumeProtection):
		also := ""
		if claim.DeletionTimestamp != nil {
			also = fmt.Sprintf("the claim has been Terminating for %s, too", facts.Rounded(p.Age(*claim.DeletionTimestamp)))
		}
		holds(fmt.Sprintf("claim %s/%s is bound to it", claim.Namespace, claim.Name), also, "the volume was deleted while a claim has it; its deletion cannot be taken back")
		f.SelfHeals.Because = "it goes once the claim is deleted"
		f.Advice = "{note} decide about the data before the claim is deleted: with the reclaim policy Delete the disk goes with it, Retain keeps it"
		if deletes(pv) {
			f.Advice = fmt.Sprintf("{note} decide about the data before the claim is deleted: the disk goes with it, unless volume %s gets the reclaim policy Retain", pv.Name)
			f.AdviceCommands = []string{facts.Retain(pv)}
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolume/" + pv.Name, Field: "spec.persistentVolumeReclaimPolicy", Value: "Delete"})
		}
	case slices.Contains(pv.Finalizers, volumeProtection):
		holds("its finalizer "+volumeProtection+" stays", "no claim is bound to it", reconcile.ControllerManager+" takes that finalizer off, and has not")
		f.SelfHeals.Because = "it should have gone within seconds; " + reconcile.ControllerManager + " takes the finalizer off where it works"
		f.Advice = "{check} look whether " + reconcile.ControllerManager + " runs and leads, and what its log says about the volume"
		f.AdviceCommands = []string{safetext.Kubectl("get", "lease/"+reconcile.ControllerManager, "-n", metav1.NamespaceSystem)}
	case len(others) > 0:
		holds("finalizers of other programs keep it", "the finalizers are "+strings.Join(others, ", "), "whoever put the finalizers on has not taken them off")
		f.SelfHeals.Because = "whoever put the finalizers on has to remove them"
		f.Advice = whoPutsOn(others)
	case slices.Contains(pv.Finalizers, provisionersFinalizer), slices.Contains(pv.Finalizers, controllersFinalizer):
		diskStays(p.View, pv, &f, holds)
	default:
		return // nothing keeps it: it is about to go
	}
	p.Report(f)
}

// notDetached is why a volume without a claim is still attached, as far as the objects show.
func notDetached(p *facts.View, va facts.Attachment, f *finding.Finding) string {
	node := p.Snapshot.Node(va.Node)
	d := p.Plan.Decision(va.VolumeNode)
	switch {
	case va.DeletionTimestamp != nil:
		return fmt.Sprintf("its detach began %s ago and has not ended", facts.Rounded(p.Age(*va.DeletionTimestamp)))
	case !va.Ours():
		return "another program, such as a backup, made the VolumeAttachment"
	case d != nil && d.After > 0 && p.ControllerYounger(d.After+facts.DetachTakes):
		f.Severity = finding.Info
		left := d.After + facts.DetachTakes - p.Age(p.ControllerStart())
		f.SelfHeals = finding.SelfHeals{Will: true, After: facts.Rounded(left), Because: fmt.Sprintf("%s detaches it by force %s after its start", reconcile.ControllerManager, facts.Rounded(d.After))}
		return fmt.Sprintf("node %s is lost, and %s has just started", va.Node, reconcile.ControllerManager)
	case d != nil && d.After > 0:
		f.SelfHeals = finding.SelfHeals{Unknown: true, Because: fmt.Sprintf("%s detaches it by force %s after it wanted that; no object shows when that was, and node %s may return before",
			reconcile.ControllerManager, facts.Rounded(d.After), va.Node)}
		return fmt.Sprintf("node %s is not Ready, and its kubelet will not unmount it", va.Node)
	case node != nil && p.InUse(node, va.Volume):
		return fmt.Sprintf("node %s lists it in volumesInUse: it is detached once the kubelet has unmounted it", va.Node)
	case node == nil:
		return "the node is gone, and nobody has deleted the VolumeAttachment"
	case !reconcile.NodeReady(node):
		return fmt.Sprintf("node %s is not Ready, and nobody knows whether the volume is mounted there", va.Node)
	case p.ControllerYounger(facts.DanglingGrace):
		return fmt.Sprintf("%s started %s ago and may not have detached it yet", reconcile.ControllerManager, facts.Rounded(p.Age(p.ControllerStart())))
	}
	if d != nil && d.Verb == reconcile.Detach && d.After == 0 {
		return leftAlone
	}
	return "nobody has deleted the VolumeAttachment"
}

// leftAlone is about an attachment that a controller that starts would detach immediately.
const leftAlone = "no pod wants it there and no node uses it, and the controller at work has not detached it"

// keepsAttached reports whether the cause is about the VolumeAttachment that keeps the volume.
func keepsAttached(_ *facts.View, cause, effect finding.Finding) bool {
	return effect.VolumeAttachment != "" && cause.PersistentVolume == effect.PersistentVolume
}

// ofEarlierClaim reports whether the cause is about the successor of the volume's claim, and
// names the volume.
func ofEarlierClaim(_ *facts.View, cause, effect finding.Finding) bool {
	return slices.ContainsFunc(cause.Evidence, func(e finding.Evidence) bool { return e.Object == "persistentvolume/"+effect.PersistentVolume })
}

// boundTo is the claim that the volume is bound to.
func boundTo(p *facts.View, pv *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	claim := p.ClaimNamed(pv)
	if claim == nil || claim.UID != pv.Spec.ClaimRef.UID || claim.Spec.VolumeName != pv.Name {
		return nil
	}
	return claim
}

// diskStays is about a volume whose disk is still to be deleted.
func diskStays(p *facts.View, pv *corev1.PersistentVolume, f *finding.Finding, holds func(who, detail, why string)) {
	driver, who := "", reconcile.ControllerManager
	if pv.Spec.CSI != nil {
		driver = pv.Spec.CSI.Driver
		who = "the provisioner of " + driver
	}
	if !deletes(pv) {
		holds("its provisioner's finalizer stays", "its reclaim policy keeps the disk", who+" has not taken its finalizer off: it does not run, or hangs")
		f.SelfHeals.Because = who + " still has its finalizer on it; the disk stays"
		f.Advice = "{check} see whether " + who + " runs, and read its log about the volume"
		return
	}
	f.SelfHeals.Because = who + " has to delete the disk first; the deletion is tried again and again"
	defer keepDiskFirst(f, pv)
	failed := lastFailedDelete(p, pv)
	if failed == nil {
		said, why := "no recent event says why", "does not run, or hangs"
		if !p.Snapshot.CompleteIn(snapshot.Events, metav1.NamespaceDefault) { // where events of objects without a namespace are
			said, why = "why is not known: not all events could be read", "fails, and its events say why, or it does not run"
		}
		holds("its disk is not deleted", who+" has not deleted its disk, and "+said, who+" "+why)
		f.Advice = "{check} see whether " + who + " runs, and read its log about the volume"
		return
	}
	f.Said = facts.QuoteEvent(failed)
	holds("its disk is not deleted", who+" fails to delete its disk", who+" says why, in words of its own")
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolume/" + pv.Name, Field: "events", Value: lastSaid(failed)})
	f.Advice = "{fix} fix what the message names; the log of " + who + " has the rest"
	said := facts.Said{Driver: driver, Message: failed.Message, Volume: pv}
	if entry, known := facts.DetachMeans(driver, failed.Message); known {
		lookUps := p.LookUps(said)
		entry = p.Settled(entry, said)
		f.Cause = facts.WhatItMeans(entry, p.Age(*pv.DeletionTimestamp))
		f.Actor, f.KnownFrom = facts.WhoActs(entry), facts.KnownFrom(entry, lookUps...)
	}
}

// lastFailedDelete is the last event about a failed deletion of the disk; nil where a later
// attempt must have followed.
func lastFailedDelete(p *facts.View, pv *corev1.PersistentVolume) *corev1.Event {
	var last *corev1.Event
	for _, e := range facts.InOrder(p.Snapshot.EventsAbout("PersistentVolume", pv)) {
		if e.Reason == "VolumeFailedDelete" && p.Age(snapshot.EventTime(e)) <= facts.ProvisionSilence {
			last = e
		}
	}
	return last
}
