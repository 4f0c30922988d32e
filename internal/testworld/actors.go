package testworld

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// ActorsDiffer returns the contradictions about actors in one report: between a finding's text and
// its Actor, and between a finding about a pod that waits, certain or suspected, and the verdict. A
// finding about another volume of the pod may name another actor. It also returns waits that count
// as in flight although nobody or no retry can end them.
func ActorsDiffer(s *snapshot.Snapshot, report *finding.Report) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, f := range report.Findings {
		text := f.Text() + "; " + f.Cause
		for _, actor := range []driverwords.Actor{driverwords.StorageAdmin, driverwords.ClusterAdmin, driverwords.NodeAdmin, driverwords.WorkloadOwner} {
			if named := "the " + string(actor); strings.Contains(text, named+" has to act") && f.Actor != named {
				say("%s says that %s has to act, and names %q", f.Code, named, f.Actor)
			}
		}
		if f.Confidence == "" && !f.SelfHeals.Will && !f.SelfHeals.Unknown && strings.Contains(text, "that usually ends by itself") && !strings.Contains(text, ", and has not for") {
			say("%s does not heal, and says: %s", f.Code, text)
		}
		if f.Actor != "" && strings.Contains(text, " has to act") && !strings.Contains(text, f.Actor+" has to act") {
			say("%s names %q and says: %s", f.Code, f.Actor, text)
		}
	}
	for _, w := range report.Waiting {
		if w.Verdict == finding.InFlight && slices.Contains(strings.Split(w.Actor, " or "), "nobody") {
			say("pod %s is in flight, and nobody has to act", w.Pod)
		}
		word, _ := kubeletwords.Find(slices.Concat(kubeletwords.WaitWords, kubeletwords.MountWords), w.Said)
		if w.Verdict == finding.InFlight && word.Permanent && w.Stage != "attached" {
			say("pod %s is in flight, and what was said never passes: %s", w.Pod, w.Said)
		}
		namespace, name, _ := strings.Cut(w.Pod, "/")
		pod, volume := s.Pod(types.NamespacedName{Namespace: namespace, Name: name}), ""
		for i := range pod.Spec.Volumes {
			if claim := s.Claim(facts.ClaimKey(pod, reconcile.ClaimName(pod, &pod.Spec.Volumes[i]))); pod.Spec.Volumes[i].Name == w.Volume && claim != nil {
				volume = claim.Spec.VolumeName
			}
		}
		for _, f := range report.Findings {
			if !f.Names(w.Pod) {
				continue
			}
			if _, next, found := strings.Cut(f.Text(), "next to act: "); found && f.Confidence == "" && f.Severity.AtLeast(finding.Warning) && w.Volume != "" && w.Actor != "" &&
				f.Subject.Namespace+"/"+f.Subject.Name == w.Pod && !strings.HasPrefix(next, w.Actor) {
				say("%s says of pod %s: %s; it waits for %s", f.Code, w.Pod, next, w.Actor)
			}
			other := f.PersistentVolume != "" && f.PersistentVolume != volume
			if f.Actor != "" && !other && !slices.Contains(strings.Split(w.Actor, " or "), f.Actor) && (f.PersistentVolume != "" || !waitsFor(s, pod, w.Volume, f.Actor)) {
				say("pod %s waits for %q, and %s names %q", w.Pod, w.Actor, f.Code, f.Actor)
			}
		}
	}
	return wrong
}

// TraceActorsDiffer is ActorsDiffer for a trace of a pod and the findings that it shows.
func TraceActorsDiffer(s *snapshot.Snapshot, t *trace.Trace) []string {
	report := &finding.Report{}
	for _, f := range t.Findings {
		report.Findings = append(report.Findings, f.Whole)
	}
	if v := t.Known().Verdict; v.State == finding.InFlight || v.State == finding.Stuck {
		report.Waiting = []finding.Waiting{{Pod: t.Pod.Namespace + "/" + t.Pod.Name, Verdict: v.State, Volume: v.Volume, Stage: string(v.Stage), Actor: v.Actor, Said: v.Said}}
	}
	return ActorsDiffer(s, report)
}

// waitsFor reports whether another volume of the pod than the named one waits for the actor.
func waitsFor(s *snapshot.Snapshot, pod *corev1.Pod, named, actor string) bool {
	for _, v := range diagnose.TracePod(s, pod, diagnose.Options{Checks: []check.Check{}}).Volumes {
		if v.Name != named && slices.ContainsFunc(v.Stages, func(s trace.Stage) bool { return s.Stage == v.Broken && s.On == actor }) {
			return true
		}
	}
	return false
}
