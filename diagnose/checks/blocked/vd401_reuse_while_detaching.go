// Package blocked has the checks about volumes that are wanted and cannot be attached.
package blocked

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

var ReuseWhileDetaching = check.Check{
	Code:        "VD401",
	Name:        "reuse-while-detaching",
	Title:       "A pod came back to a node while its volume was being detached there, and the detach fails",
	Severity:    finding.Error,
	Needs:       check.AttachmentKinds(),
	OfNamespace: true,
	OfDriver:    true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD604", "VD605"}, Match: check.SameDriver},
		{From: []finding.Code{"VD601", "VD607", "VD612"}, Match: check.SameDriver},
		{From: []finding.Code{"VD609"}, Match: check.ThrottledDetach},
	},
	Never: "take the finalizer off: it hides from the driver that the volume is still attached here",
	Run:   runReuseWhileDetaching,
}

func runReuseWhileDetaching(p *check.Run) {
	for _, va := range p.Attachments() {
		if pods, ok := p.ReusedWhileDetaching(va); ok && !p.DetachLacksSecret(va.VolumeAttachment) {
			reuse(p, va, pods)
		}
	}
}

func reuse(p *check.Run, va facts.Attachment, pods []*corev1.Pod) {
	pod, pv, deleted := pods[0], p.ShortVolumeOf(va), *va.DeletionTimestamp
	f := p.About(va, finding.Finding{
		Subject:  facts.PodObject(pod),
		Pods:     facts.PodNames(pods),
		Since:    &deleted,
		Message:  fmt.Sprintf("Pod %s waits on node %s: volume %s is still detaching", facts.PodName(pod), va.Node, pv),
		Cause:    "the pod came back before the detach for its predecessor had ended; the controller attaches nothing while the old VolumeAttachment is there",
		Evidence: []finding.Evidence{{Object: va.Object(), Field: "metadata.deletionTimestamp", Value: facts.Stamp(deleted)}},
		SelfHeals: finding.SelfHeals{Because: "the driver has to detach it first; the attacher asks the driver again, at most 5 min apart, and the volume is attached again " +
			"within about 2 min of that"},
		Advice: "{fix} fix what the driver reports",
	})
	if !p.OneNode(va.Volume) {
		f.Advice += ", or let the pod start on another node"
	}
	if failure := p.DetachError(va.VolumeAttachment); failure != nil {
		facts.Also(&f, "the driver fails to detach it")
		f.Said = facts.QuoteDriver(va.Spec.Attacher, failure)
		if entry, known := facts.DetachMeans(va.Spec.Attacher, failure.Message); known && entry.Layer != driverwords.PlainWords {
			entry = p.Settled(entry, facts.Said{Driver: va.Spec.Attacher, Message: failure.Message, Node: va.Node})
			f.Advice, f.KnownFrom = facts.OfController(facts.Helps(entry, p.Age(deleted))), facts.KnownFrom(entry)
		}
		f.Evidence = append(f.Evidence, facts.FailedDetach(va.VolumeAttachment, failure))
	}
	if lease := p.StaleAttacherLease(va.Spec.Attacher); lease != nil {
		renewed := lease.Spec.RenewTime.UTC().Format(time.RFC3339)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "lease/" + lease.Namespace + "/" + lease.Name, Field: "spec.renewTime", Value: renewed})
		if p.DetachError(va.VolumeAttachment) == nil {
			facts.Also(&f, "the attacher of %s, which would detach it, has not renewed its lease since %s", va.Spec.Attacher, renewed)
			f.SelfHeals.Because = finding.Clauses("the external-attacher does not run", p.StuckAttacherClause(lease))
			f.Advice = p.BringBack(lease) + "; the detach and the new attach then follow by themselves"
		}
	}
	p.Report(f)
}
