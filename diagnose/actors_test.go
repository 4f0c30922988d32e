package diagnose_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// actorsDiffer are the places where one report names different actors for one wait: in a
// finding's words and in what it hands on, and in a finding about the pod that waits, be it
// certain or suspected, and in the verdict. A finding about another volume of the pod may name
// another actor. It also says where a wait that nobody can end, or that no retry can, counts as
// in flight.
func actorsDiffer(s *snapshot.Snapshot, report *finding.Report) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	for _, f := range report.Findings {
		text := f.Text() + "; " + f.Cause
		for _, actor := range []driverwords.Actor{driverwords.StorageAdmin, driverwords.ClusterAdmin, driverwords.NodeAdmin, driverwords.WorkloadOwner} {
			if named := "the " + string(actor); strings.Contains(text, named+" has to act") && f.Actor != named {
				say("%s says that %s has to act, and names %q", f.Code, named, f.Actor)
			}
		}
		if f.Confidence == "" && !f.SelfHeals.Will && strings.Contains(text, "that usually ends by itself") && !strings.Contains(text, ", and has not for") {
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
			if f.Actor != "" && !other && !slices.Contains(strings.Split(w.Actor, " or "), f.Actor) {
				say("pod %s waits for %q, and %s names %q", w.Pod, w.Actor, f.Code, f.Actor)
			}
		}
	}
	return wrong
}

// TestActorsDiffer: actorsDiffer notices each kind of contradiction.
func TestActorsDiffer(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data"}}}}
	s := remade(&snapshot.Snapshot{}, snapshot.Objects{Pods: []*corev1.Pod{pod}}, nil)
	about := func(message, actor string) finding.Finding {
		return finding.Finding{Code: "VD411", Severity: finding.Error, Subject: facts.PodObject(pod), Message: message, Actor: actor}
	}
	on := func(state finding.WaitState, actor, said string) finding.Waiting {
		return finding.Waiting{Pod: "a/web", Verdict: state, Volume: "data", Stage: "mounted", Actor: actor, Said: said}
	}
	suspected := func(f finding.Finding) finding.Finding { f.Confidence = finding.Suspected; return f }
	ofVolume := func(f finding.Finding, pv string) finding.Finding { f.PersistentVolume = pv; return f }
	for name, row := range map[string]struct {
		finding finding.Finding
		waiting finding.Waiting
		wrong   int
	}{
		"they agree":           {about("x; the node admin has to act", "the node admin"), on(finding.Stuck, "the node admin", ""), 0},
		"it names nobody":      {about("x", ""), on(finding.Stuck, "the node admin", ""), 0},
		"only in words":        {about("x; the node admin has to act", ""), on(finding.Stuck, "the node admin", ""), 1},
		"another in words":     {about("x; pod a/db has to act", "the node admin"), on(finding.Stuck, "the node admin", ""), 1},
		"another waits":        {about("x; the node admin has to act", "the node admin"), on(finding.Stuck, "CSI driver d on n1", ""), 1},
		"a suspicion does":     {suspected(about("x; the node admin has to act", "the node admin")), on(finding.Stuck, "CSI driver d on n1", ""), 1},
		"one of two waits":     {about("x; the node admin has to act", "the node admin"), on(finding.Stuck, "CSI driver d on n1 or the node admin", ""), 0},
		"of another volume":    {ofVolume(about("x; the node admin has to act", "the node admin"), "pv-2"), on(finding.Stuck, "CSI driver d on n1", ""), 0},
		"nobody waits":         {about("x; the node admin has to act", "the node admin"), on(finding.Stuck, "", ""), 1},
		"another is next":      {about("x; next to act: nobody", ""), on(finding.Stuck, "the node admin", ""), 1},
		"nobody, in flight":    {about("x", ""), on(finding.InFlight, "nobody", ""), 1},
		"permanent, in flight": {about("x", ""), on(finding.InFlight, "the node admin", "volume data has volumeMode Block, but is specified in volumeMounts"), 1},
	} {
		if wrong := actorsDiffer(s, &finding.Report{Findings: []finding.Finding{row.finding}, Waiting: []finding.Waiting{row.waiting}}); len(wrong) != row.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}
