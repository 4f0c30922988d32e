package attached

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var VaStuckDeleting = check.Check{
	Code:     "VD103",
	Name:     "va-stuck-deleting",
	Title:    "A VolumeAttachment cannot be deleted because the driver keeps failing to detach",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(),
	OfDriver: true,
	Yields: []check.Yield{
		{To: "VD115", Key: check.OfAttachment},
		{To: "VD122", Key: check.OfAttachment},
		{To: "VD401", Key: check.OfAttachment},
	},
	Follows: []check.Relation{
		{From: []finding.Code{"VD604", "VD605"}, Match: check.SameDriver},
		{From: []finding.Code{"VD609"}, Match: check.ThrottledDetach},
	},
	Never: "take the finalizer off: a volume that is still attached stays so",
	Run:   runVAStuckDeleting,
}

func runVAStuckDeleting(p *check.Run) {
	for _, va := range p.Attachments() {
		// publish-secret-missing has one finding for all detaches that lack a secret.
		if detachStuck(p.View, va) && !p.DetachLacksSecret(va.VolumeAttachment) {
			stuckDeleting(p, va)
		}
	}
}

// detachStuck reports whether the driver has failed to detach the volume for longer than its own
// transient failures last.
func detachStuck(p *facts.View, va facts.Attachment) bool {
	failure := p.DetachError(va.VolumeAttachment)
	if va.DeletionTimestamp == nil || !va.Ours() ||
		!facts.AttacherHolds(va.VolumeAttachment) || !p.StillRefused(failure) {
		return false
	}
	grace := facts.StuckDeleting
	if facts.Unanswered(va.Spec.Attacher, failure.Message) {
		grace = facts.OutageGrace
	}
	return p.Lasted(*va.DeletionTimestamp, grace)
}

func stuckDeleting(p *check.Run, va facts.Attachment) {
	pv, failure := p.ShortVolumeOf(va), va.Status.DetachError
	f := p.About(va, finding.Finding{
		Since:    va.DeletionTimestamp,
		Message:  fmt.Sprintf("Volume %s cannot be detached from node %s: the driver fails", pv, va.Node),
		Said:     facts.QuoteDriver(va.Spec.Attacher, failure),
		Cause:    detachCause(va.Spec.Attacher, failure.Message, p.Age(*va.DeletionTimestamp)),
		Evidence: failingDetach(va),
		SelfHeals: finding.SelfHeals{Because: "it goes only once the driver succeeds; the attacher asks the driver again, at most 5 min apart; " +
			"it last failed after " + facts.Rounded(failure.Time.Sub(va.DeletionTimestamp.Time))},
		Advice: "{fix} fix what the driver reports",
	})
	if entry, known := facts.DetachMeans(va.Spec.Attacher, failure.Message); known {
		entry = p.Settled(entry, facts.Said{Driver: va.Spec.Attacher, Message: failure.Message, Node: va.Node})
		f.Advice = facts.OfController(facts.Helps(entry, p.Age(*va.DeletionTimestamp)))
		f.KnownFrom = facts.KnownFrom(entry)
	}
	f.Actor = facts.WhoDetaches(va.Spec.Attacher, failure.Message)
	if was, is, ok := asksNewMachine(p.View, va); ok {
		f.Actor = ""
		f.Cause = fmt.Sprintf("the volume was attached to machine %s, and the driver is asked about %s, which has the node's name now (VD125)", was, is)
	}
	lease := attacherGone(p.View, va)
	if p.AttacherMayBeGone(va.Spec.Attacher) {
		f.Actor, f.SelfHeals.Unknown = "", true
		f.Message = fmt.Sprintf("Volume %s cannot be detached from node %s: the driver failed", pv, va.Node)
		f.SelfHeals.Because = "whether its attacher still runs is not known; leases were not read; if it does, " + f.SelfHeals.Because
	}
	if lease != nil {
		f.Actor = ""
		f.Message = fmt.Sprintf("Volume %s cannot leave node %s: its attacher no longer runs", pv, va.Node)
		facts.Also(&f, "the driver failed to detach it as long as its attacher ran")
		f.Evidence = append(f.Evidence, facts.LeaseEvidence(lease))
		f.SelfHeals.Because = "nobody asks the driver while its attacher is down; once it is back it asks again, and the driver may fail as before"
	}
	f.Cause = facts.Acting(f.Cause, f.Actor)
	node := p.Snapshot.Node(va.Node)
	if lost := facts.NotReadySince(node); !lost.IsZero() {
		facts.Also(&f, "node %s has been NotReady for %s", va.Node, facts.Rounded(p.Age(lost)))
	}
	if node == nil && p.Snapshot.Complete(snapshot.Nodes) {
		facts.Also(&f, "there is no Node %s any more", va.Node)
	}
	if node != nil && node.DeletionTimestamp != nil {
		facts.Also(&f, "node %s has been Terminating for %s", va.Node, facts.Rounded(p.Age(*node.DeletionTimestamp)))
	}
	live := p.World.LivePods(va.VolumeNode)
	if i := slices.IndexFunc(live, facts.MayUseVolumes); i >= 0 {
		f.Severity, f.Pods = finding.Error, facts.PodNames(live)
		facts.Also(&f, "pod %s still uses the volume there and loses it once the driver succeeds", facts.PodName(live[i]))
	} else if len(live) > 0 {
		f.Severity, f.Pods = finding.Error, facts.PodNames(live)
		facts.Also(&f, "pod %s waits there until the detach has ended and the volume is attached again", facts.PodName(live[0]))
	} else {
		p.AddKeptFrom(&f)
	}
	p.Report(f)
}

// failingDetach is the evidence of a detach that fails.
func failingDetach(va facts.Attachment) []finding.Evidence {
	failure := va.Status.DetachError
	return []finding.Evidence{
		{Object: va.Object(), Field: "metadata.deletionTimestamp", Value: facts.Stamp(*va.DeletionTimestamp)},
		{Object: va.Object(), Field: "metadata.finalizers", Value: fmt.Sprint(va.Finalizers)},
		facts.FailedDetach(va.VolumeAttachment, failure),
	}
}

// attacherGone is the lease that shows that nobody detaches the volume now: attacher-down. It
// changes only the text about the detach, as a driver that failed before is a failure of its own.
func attacherGone(p *facts.View, va facts.Attachment) *coordinationv1.Lease {
	if !p.Snapshot.Complete(snapshot.Leases) {
		return nil
	}
	lease, tasks := p.Abandoned(va.Spec.Attacher)
	if !slices.ContainsFunc(tasks, func(t facts.Task) bool { return t.VolumeAttachment == va.VolumeAttachment }) {
		return nil
	}
	return lease
}

// detachCause is the meaning of the driver's message for the detach.
func detachCause(driver, message string, lasts time.Duration) string {
	entry, known := facts.DetachMeans(driver, message)
	if !known {
		return "the driver rejects the detach, in words whose meaning is not known"
	}
	if facts.MayBeDetached(driver, message) {
		return "the driver does not find the volume or the node: the volume may well be detached already, and the driver treats that as a failure"
	}
	return "the driver's words mean: " + facts.WhatItSays(entry, lasts)
}
