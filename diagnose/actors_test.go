package diagnose_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestActorsDiffer: the judge notices each kind of contradiction.
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
	mayHeal := func(f finding.Finding) finding.Finding { f.SelfHeals.Unknown = true; return f }
	ofVolume := func(f finding.Finding, pv string) finding.Finding { f.PersistentVolume = pv; return f }
	for name, row := range map[string]struct {
		finding finding.Finding
		waiting finding.Waiting
		wrong   int
	}{
		"they agree":               {about("x; the node admin has to act", "the node admin"), on(finding.Stuck, "the node admin", ""), 0},
		"it names nobody":          {about("x", ""), on(finding.Stuck, "the node admin", ""), 0},
		"only in words":            {about("x; the node admin has to act", ""), on(finding.Stuck, "the node admin", ""), 1},
		"another in words":         {about("x; pod a/db has to act", "the node admin"), on(finding.Stuck, "the node admin", ""), 1},
		"another waits":            {about("x; the node admin has to act", "the node admin"), on(finding.Stuck, "CSI driver d on n1", ""), 1},
		"it may end, and does not": {about("x; that usually ends by itself", ""), on(finding.Stuck, "the node admin", ""), 1},
		"it may end":               {mayHeal(about("x; that usually ends by itself", "")), on(finding.Stuck, "the node admin", ""), 0},
		"a suspicion does":         {suspected(about("x; the node admin has to act", "the node admin")), on(finding.Stuck, "CSI driver d on n1", ""), 1},
		"one of two waits":         {about("x; the node admin has to act", "the node admin"), on(finding.Stuck, "CSI driver d on n1 or the node admin", ""), 0},
		"of another volume":        {ofVolume(about("x; the node admin has to act", "the node admin"), "pv-2"), on(finding.Stuck, "CSI driver d on n1", ""), 0},
		"nobody waits":             {about("x; the node admin has to act", "the node admin"), on(finding.Stuck, "", ""), 1},
		"another is next":          {about("x; next to act: nobody", ""), on(finding.Stuck, "the node admin", ""), 1},
		"nobody, in flight":        {about("x", ""), on(finding.InFlight, "nobody", ""), 1},
		"permanent, in flight":     {about("x", ""), on(finding.InFlight, "the node admin", "volume data has volumeMode Block, but is specified in volumeMounts"), 1},
	} {
		if wrong := testworld.ActorsDiffer(s, &finding.Report{Findings: []finding.Finding{row.finding}, Waiting: []finding.Waiting{row.waiting}}); len(wrong) != row.wrong {
			t.Errorf("%s: %q", name, wrong)
		}
	}
}
