package blocked

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var AttachmentDenied = check.Check{
	Code:        "VD415",
	Name:        "attachment-denied",
	Title:       "The API server does not let the controller create a VolumeAttachment",
	Severity:    finding.Error,
	Needs:       check.AttachmentKinds(snapshot.Events),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "create the VolumeAttachment by hand: the same denies it, for a reason",
	Run:         runAttachmentDenied,
}

// denied is a pod that waits for a VolumeAttachment.
type denied struct {
	pod    *corev1.Pod
	pair   reconcile.VolumeNode
	denial facts.Denial
}

// runAttachmentDenied makes one finding for each policy or webhook, and one for the role.
func runAttachmentDenied(p *check.Run) {
	byWhom := map[[2]string][]denied{}
	for volume, pods := range p.Waiting() {
		for _, pod := range pods {
			pair := reconcile.VolumeNode{Volume: volume, Node: types.NodeName(pod.Spec.NodeName)}
			if len(p.World.Attachments(pair)) > 0 {
				continue // it was created since
			}
			if d, found := p.AttachDenied(pod, p.ShortVolume(volume)); found && p.Lasted(facts.BoundAt(pod), facts.RefusalGrace) {
				whom := [2]string{string(d.Kind), d.Name}
				byWhom[whom] = append(byWhom[whom], denied{pod, pair, d})
			}
		}
	}
	for _, list := range byWhom {
		slices.SortFunc(list, func(a, b denied) int {
			since, other := facts.BoundAt(a.pod), facts.BoundAt(b.pod)
			if c := since.Compare(other.Time); c != 0 {
				return c
			}
			return strings.Compare(facts.PodName(a.pod)+string(a.pair.Volume), facts.PodName(b.pod)+string(b.pair.Volume))
		})
		attachmentDenied(p, list)
	}
}

func attachmentDenied(p *check.Run, list []denied) {
	lead := list[0]
	var pods []*corev1.Pod
	f := finding.Finding{
		Subject:          facts.PodObject(lead.pod),
		Volume:           lead.pair.Volume,
		Node:             lead.pair.Node,
		PersistentVolume: p.ShortVolume(lead.pair.Volume),
		Actor:            lead.denial.Actor(),
		Cause:            "the API server asks " + lead.denial.Actor() + " before it creates a VolumeAttachment",
		SelfHeals: finding.SelfHeals{Because: "each attempt is denied; the controller tries again, at most " + facts.Rounded(reconcile.BackoffLast) +
			" apart"},
	}
	for i, d := range list {
		pods = append(pods, d.pod)
		if i < enough {
			e := d.denial.Event
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(d.pod), Field: "events",
				Value: fmt.Sprintf("%s at %s: %s", e.Reason, facts.Stamp(snapshot.EventTime(e)), e.Message)})
		}
	}
	pods = facts.EachOnce(pods)
	f.Since, f.Pods = new(facts.BoundAt(lead.pod)), facts.PodNames(pods)
	f.Message = fmt.Sprintf("Pod %s waits on node %s: no VolumeAttachment can be created for volume %s", facts.PodName(lead.pod), lead.pair.Node, f.PersistentVolume)
	f.Detail = finding.Clauses("the controller cannot create it: "+lead.denial.Text(), facts.Alike(pods))
	switch lead.denial.Kind {
	case facts.DeniedByPolicy:
		f.Advice = "{change} have the policy exempt storage.k8s.io/volumeattachments, or the controller that creates them"
	case facts.DeniedByRole:
		f.Cause = "the role of the attach/detach controller has lost rights that Kubernetes gives it"
		f.Advice = "{change} let the API server restore the role: it does so when it starts, unless the annotation rbac.authorization.kubernetes.io/autoupdate says false"
	case facts.WebhookSilent:
		f.Cause = "the webhook's pods or its service are down, or its certificate is not accepted, and its failurePolicy is Fail"
		f.Advice = "{fix} bring the webhook back; where it needs a volume itself, {change} exempt storage.k8s.io/volumeattachments in its rules"
	case facts.DeniedByWebhook:
		f.Advice = "exempt storage.k8s.io/volumeattachments in the webhook's rules, or {change} have the webhook accept them"
	}
	p.Report(f)
}
