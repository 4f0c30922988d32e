package blocked

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var AttachRefused = check.Check{
	Code:        "VD410",
	Name:        "attach-refused",
	Title:       "A driver refuses to attach a volume, in words whose meaning is known",
	Severity:    finding.Error,
	Needs:       check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	OfNamespace: true,
	OfDriver:    true,
	Yields: []check.Yield{
		{To: "VD404", Key: check.OfAttachment},
		{To: "VD502", Key: check.OfAttachment},
		{To: "VD506", Key: check.OfPersistentVolume},
		{To: "VD602", Key: check.Said(check.OfDriverOnNode, driverwords.NotRegistered, driverwords.NodeUnknown, driverwords.MachineGone)},
		{To: "VD608", Key: check.Said(check.OfPodsOnNode, driverwords.TimedOut, driverwords.DriverUnavailable, driverwords.Unreachable, driverwords.OperationPending)},
		{To: "VD609", Key: check.Said((*facts.View).DriverOf, driverwords.Throttled)},
		{To: "VD610", Key: check.OfAttachment},
		{To: "VD620", Key: check.Said(check.OfDriverOnNode, driverwords.NodeUnknown, driverwords.MachineGone)},
	},
	Follows: []check.Relation{
		{From: []finding.Code{"VD604", "VD605"}, Match: check.SameDriver},
		{From: []finding.Code{"VD116"}, Share: check.OfVolume, Match: namesItsNode},
	},
	Never: "delete the VolumeAttachment: a new one asks the driver for the same",
	Run:   runAttachRefused,
}

func runAttachRefused(p *check.Run) {
	var refusals []refusal
	for _, driver := range p.Attachers() {
		for _, t := range p.RefusedAttaches(driver) {
			entry, known := facts.AttachRefusal(driver, t.Failure)
			if entry = p.Settled(entry, facts.Said{Driver: driver, Message: t.Failure.Message, Node: t.Pair.Node}); known && !explained(p.View, t, entry.Meaning) {
				refusals = append(refusals, attachRefusal(p.View, t, entry))
			}
		}
	}
	reportRefusals(p, refusals, "attach", "attacher", "5 min")
}

// namesItsNode reports whether the driver's message names the machine of the cause's node as the
// holder of the volume: the node still has it mounted.
func namesItsNode(p *facts.View, cause, effect finding.Finding) bool {
	va := p.Snapshot.VolumeAttachment(effect.VolumeAttachment)
	if va == nil || va.Status.AttachError == nil || cause.Volume != effect.Volume {
		return false
	}
	held := p.NamedNode(facts.Attachment{VolumeAttachment: va, VolumeNode: effect.Pair()}, va.Status.AttachError.Message)
	return held != nil && facts.NodeName(held) == cause.Node && facts.HeldElsewhere(va.Spec.Attacher, va.Status.AttachError.Message)
}

// explained reports whether objects say more than the message, for which other checks exist, or
// it is too early for those. publish-secret-missing and attach-limit have one finding for many
// attachments.
func explained(p *facts.View, t facts.RefusedAttach, meaning driverwords.Meaning) bool {
	switch meaning {
	case driverwords.SecretMissing:
		_, missing := p.MissingSecret(t.Task)
		return missing
	case driverwords.AttachLimit:
		return true
	case driverwords.AttachedElsewhere, driverwords.MultiAttach:
		return slices.ContainsFunc(p.AttachmentsOf(t.Pair.Volume), func(va facts.Attachment) bool { return va.Node != t.Pair.Node })
	case driverwords.NotRegistered:
		node := p.Snapshot.Node(t.Pair.Node)
		return node != nil && (!p.RegisteredLongEnough(node) || p.PluginYoung(node, t.Spec.Attacher)) ||
			// the driver has registered since
			facts.ContainsAny(t.Failure.Message, "does not contain driver") && facts.Registers(p.Snapshot.CSINode(t.Pair.Node), t.Spec.Attacher)
	default:
		return false
	}
}

func attachRefusal(p *facts.View, t facts.RefusedAttach, entry driverwords.Entry) refusal {
	says, actor := facts.WhatItMeans(entry, p.Age(t.Waits)), facts.WhoActs(entry)
	doubt := p.MayHaveEnded(t.VolumeAttachment, t.Failure)
	if doubt != nil {
		says, actor = facts.WhatItSays(entry, p.Age(t.Waits)), ""
	}
	r := refusal{
		driver:   t.Spec.Attacher,
		volume:   p.TaskVolume(t.Task),
		node:     t.Pair.Node,
		entry:    entry,
		says:     says,
		actor:    actor,
		doubt:    doubt,
		pods:     t.Pods,
		since:    t.Waits,
		said:     t.Failure.Message,
		evidence: facts.FailedAttach(t.VolumeAttachment, t.Failure),
		one: finding.Finding{
			Subject:          facts.VaObject(t.VolumeAttachment),
			Volume:           t.Pair.Volume,
			VolumeAttachment: t.Name,
			Said:             p.QuoteAttach(t.Spec.Attacher, t.Failure, t.Pods),
		},
	}
	if before, ok := facts.ErrorBefore(r.driver, r.said, attachFailures(p, t.Pods[0], r.volume)); ok {
		r.follows(p, before)
	}
	return r
}

// attachFailures are the failed attaches of the volume in the pod's events, oldest first.
func attachFailures(p *facts.View, pod *corev1.Pod, volume string) []facts.MountFailure {
	var list []facts.MountFailure
	for _, e := range facts.InOrder(p.EventsOf(pod)) {
		if m := kubeletwords.Failed.FindStringSubmatch(e.Message); e.Reason == "FailedAttachVolume" && m != nil && m[2] == volume {
			list = append(list, facts.MountFailure{Event: e, Step: m[1], Reason: m[3]})
		}
	}
	return list
}
