package blocked

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
)

// refusal is one error of a driver, or of the kubelet, about one volume.
type refusal struct {
	driver, volume string // the volume as people know it
	node           types.NodeName
	entry          driverwords.Entry
	pods           []*corev1.Pod
	since          metav1.Time
	evidence       finding.Evidence
	// said is the whole message.
	said string
	// says is its meaning, and who has to act.
	says string
	// lacks is a clause: which Secret or ConfigMap is missing, or which key of it; "" for none.
	lacks string
	// objects is what the cluster's objects show about the cause; "" for nothing.
	objects string
	// helps is the advice, where more is known than the entry has.
	helps string
	// actor has to act; "" where the message does not tell.
	actor string
	// one is the finding about this refusal alone, without the common part.
	one finding.Finding
	// doubt is the attachment whose refusal may be over by now; nil where somebody must act to
	// end it.
	doubt *facts.Attachment
}

// follows makes the refusal one for the earlier error, from which the present one only follows.
func (r *refusal) follows(p *facts.View, before facts.MountFailure) {
	r.entry, _ = facts.DriverSays(r.driver, before.Reason)
	r.actor = facts.WhoActs(r.entry)
	r.says = facts.WhatItMeans(r.entry, p.Age(r.since))
	r.objects = fmt.Sprintf("since then it only says %q", r.said)
	r.said = before.Reason
	r.one.Said = facts.QuoteEvent(before.Event)
	r.one.Said.Text = before.Reason
	r.one.Evidence = append(r.one.Evidence, finding.Evidence{Object: "event/" + before.Event.Namespace + "/" + before.Event.Name, Field: "message", Value: before.Event.Message})
}

// cause is equal for refusals with one cause.
type cause struct {
	driver, about string
	meaning       driverwords.Meaning
}

func (r refusal) cause() cause {
	c := cause{driver: r.driver, meaning: r.entry.Meaning}
	about, _ := r.entry.Meaning.About()
	switch {
	case r.driver == "":
		// A volume without a driver has no name that several pods share.
		c.about = r.pods[0].Namespace + " " + r.volume
		if r.one.Subject.Kind != "Pod" {
			c.about = r.one.Subject.String()
		}
	case about.Concerns == driverwords.OneNode:
		c.about = string(r.node)
	case about.Concerns == driverwords.OneVolume:
		c.about = r.volume
	}
	return c
}

// reportRefusals makes one finding for each cause. verb is the refused call, which the caller repeats, at
// most pause apart.
func reportRefusals(p *check.Run, refusals []refusal, verb, caller, pause string) {
	for _, list := range check.GroupBy(refusals, refusal.cause) {
		slices.SortStableFunc(list, func(a, b refusal) int { return a.since.Compare(b.since.Time) })
		p.Report(refused(p, list, verb, caller, pause))
	}
}

// enough is the largest number of refusals of one cause in the evidence.
const enough = 5

// headline is the meaning in short, or where that is only a guess the refused call.
func (r refusal) headline(by, verb string) string {
	about, _ := r.entry.Meaning.About()
	if !r.entry.Layer.Sure() || r.entry.Wrapper {
		about.Headline = "{by} fails to " + verb + " volume {volume}"
	}
	return strings.NewReplacer("{by}", by, "{volume}", r.volume).Replace(about.Headline)
}

func refused(p *check.Run, list []refusal, verb, caller, pause string) finding.Finding {
	lead := list[0]
	var pods []*corev1.Pod
	f := lead.one
	for i, r := range list {
		pods = append(pods, r.pods...)
		if i < enough {
			f.Evidence = append(f.Evidence, r.evidence)
		}
	}
	pods = facts.EachOnce(pods)
	f.Actor = lead.actor
	f.Node, f.Pods, f.Since = lead.node, facts.PodNames(pods), &lead.since
	if p.Snapshot.Volume(lead.volume) != nil {
		f.PersistentVolume = lead.volume
	}
	by := "the kubelet"
	if lead.driver != "" {
		by = "driver " + lead.driver
	}
	f.Message = fmt.Sprintf("Pod %s waits on node %s: %s", facts.PodName(lead.pods[0]), lead.node, cmp.Or(lead.lacks, lead.headline(by, verb)))
	says := by + " says that " + lead.says
	if lead.lacks != "" { // as the headline says
		says = strings.TrimPrefix(facts.Acting("", lead.actor), "; ")
	}
	f.Detail = facts.Alike(pods)
	lookUps := p.LookUps(facts.Said{Driver: lead.driver, Message: lead.said, Node: lead.node, Volume: p.Snapshot.Volume(lead.volume), Namespace: lead.pods[0].Namespace})
	if lead.objects != "" {
		lookUps = append(lookUps, lead.objects)
	}
	if len(lookUps) > 0 {
		says = finding.Clauses(says, "the objects say: "+strings.Join(lookUps, "; "))
	}
	f.Cause = says
	f.KnownFrom = facts.KnownFrom(lead.entry, lookUps...)
	f.Severity = finding.Error
	f.SelfHeals = finding.SelfHeals{Because: fmt.Sprintf("each attempt fails, at most %s apart", pause)}
	if facts.Heals(lead.entry, p.Age(lead.since)) {
		f.Severity = finding.Warning
		f.SelfHeals = finding.SelfHeals{Unknown: true, Because: fmt.Sprintf("it has taken longer than usual; the %s retries, at most %s apart, and usually succeeds in the end", caller, pause)}
	}
	lead.entry.Helps = cmp.Or(lead.helps, lead.entry.Helps)
	f.Advice = strings.ReplaceAll(facts.Helps(lead.entry, p.Age(lead.since)), step.DeletePod.Of(), step.DeletePod.Of(f.Pods...))
	if verb == "attach" {
		f.Advice = facts.OfController(f.Advice)
	}
	if lead.doubt != nil {
		f.Severity, f.Follow = finding.Warning, facts.FollowFor // an error is certain
		suspectUntilRefusedAlone(p, *lead.doubt, &f)
	}
	return f
}
