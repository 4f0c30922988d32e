package attached

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var HibernationOrphansVAs = check.Check{
	Code:     "VD118",
	Name:     "hibernation-orphans-vas",
	Title:    "Most volumes of a driver are attached to nodes that are gone; all its nodes are new",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	Never:    "take their finalizers off: the driver is then never asked to detach the volumes",
	Run:      runHibernationOrphansVAs,
}

// shownOrphans bounds the evidence: there may be hundreds.
const shownOrphans = 10

func runHibernationOrphansVAs(p *check.Run) {
	for driver, o := range p.Orphaned() {
		hibernation(p, driver, o)
	}
}

func hibernation(p *check.Run, driver string, o *facts.Orphans) {
	var names []string
	var waiters []*corev1.Pod
	since := o.Oldest()
	f := p.About(o.Vas[0], finding.Finding{Subject: p.DriverObject(driver), Since: &since}) // a repair takes them one by one
	for i, va := range o.Vas {
		names = append(names, string(va.Node))
		waiters = append(waiters, p.KeptFrom(va.VolumeNode)...)
		if i < shownOrphans {
			f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "spec.nodeName", Value: fmt.Sprintf("%s, which is gone; attached volume %s", va.Node, p.ShortVolume(va.Volume))})
		}
	}
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "csidriver/" + driver, Field: "nodes", Value: "the oldest that has or wants one of its volumes was made at " + facts.Stamp(since)})
	slices.Sort(names)
	names, waiters = slices.Compact(names), facts.LongestFirst(facts.EachOnce(waiters))
	f.Message = fmt.Sprintf("%d of %d volumes of %s count as attached to gone nodes", len(o.Vas), o.All, driver)
	f.Detail = fmt.Sprintf("gone are %s, and every node that the driver now serves is younger", strings.Join(names, ", "))
	f.Cause = "the cluster's machines were all removed at the same time, as by hibernation, without a detach of their volumes"
	f.SelfHeals = finding.SelfHeals{Because: "the controller detaches them by force within about 8 min of its own start; that has passed, so that it has forgotten them, " +
		"runs with --disable-force-detach-on-timeout, or does not run"}
	f.ByHand = "check at the provider that all the machines named are gone; then delete these VolumeAttachments, a few at a time"
	if n := len(o.Vas) - 1; n > 0 {
		f.Advice = fmt.Sprintf("repair them one at a time: the command is for volume %s on node %s; when that is detached, diagnose again for the next of the %d others",
			p.ShortVolume(o.Vas[0].Volume), o.Vas[0].Node, n)
	}
	if len(waiters) > 0 {
		f.Severity, f.Pods = finding.Error, facts.PodNames(waiters)
		facts.Also(&f, "pod %s waits on node %s for one of them", facts.PodName(waiters[0]), waiters[0].Spec.NodeName)
		f.Detail = finding.Clauses(f.Detail, facts.Alike(waiters))
	}
	p.Report(f)
}
