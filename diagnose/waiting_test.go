package diagnose_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// answered fails where a report and the trace disagree about a pod that waits: a stuck pod has
// a finding that makes the command fail, and one within its usual time has none.
func answered(t interface{ Errorf(string, ...any) }, what string, s *snapshot.Snapshot, settings diagnose.Options) (stuck int) {
	report := diagnose.Diagnose(s, settings)
	for _, wrong := range testworld.ActorsDiffer(s, report) {
		t.Errorf("%s: %s", what, wrong)
	}
	for _, pod := range s.Pods {
		name := pod.Namespace + "/" + pod.Name
		verdict := diagnose.TracePod(s, pod, settings).Known().Verdict
		i := slices.IndexFunc(report.Waiting, func(w finding.Waiting) bool { return w.Pod == name })
		if verdict.Reason == trace.ReasonSilent {
			// It ran when it was last heard of: it waits for no volume that anybody knows of.
			if named := slices.Contains(report.Scope.PodsOnSilentNodes, name); i >= 0 || named != (len(facts.ClaimNames(pod)) > 0) {
				t.Errorf("%s: %s is on a silent node; the report lists it as waiting: %v, as one on a silent node: %v", what, name, i >= 0, named)
			}
			continue
		}
		if (verdict.State != finding.NoWait) != (i >= 0) {
			t.Errorf("%s: the trace of %s says %s, and the report lists it: %v", what, name, verdict.State, i >= 0)
		}
		if i < 0 {
			continue
		}
		w := report.Waiting[i]
		if w.Verdict != verdict.State || w.Stage != string(verdict.Stage) || w.Actor != verdict.Actor || w.Volume != verdict.Volume || w.Node != pod.Spec.NodeName {
			t.Errorf("%s: the trace of %s says %+v, the report %+v", what, name, verdict, w)
		}
		if w.Since != nil && w.Since.Before(&pod.CreationTimestamp) {
			t.Errorf("%s: %s waits in %s since %v, before it was made at %v", what, name, w.Stage, w.Since, pod.CreationTimestamp)
		}
		warned := slices.IndexFunc(report.Findings, func(f finding.Finding) bool { return f.Severity.AtLeast(finding.Warning) && f.Names(name) })
		switch {
		case w.Verdict == finding.Stuck && (warned < 0 || !report.Reaches(finding.Warning)):
			t.Errorf("%s: %s is stuck in %s, and no finding says so: %s", what, name, w.Stage, verdict.Message)
		case w.Verdict == finding.Stuck && !slices.Contains(w.Findings, report.Findings[warned].Fingerprint):
			t.Errorf("%s: the entry of %s does not name %s", what, name, report.Findings[warned].Code)
		case w.Verdict == finding.InFlight && warned >= 0:
			t.Errorf("%s: %s still has time until %v in %s, and %s says %q", what, name, w.DueAt, w.Stage, report.Findings[warned].Code, report.Findings[warned].Message)
		}
		if w.Verdict == finding.InFlight && w.DueAt != nil && w.DueAt.Time.Before(s.TakenAt) {
			t.Errorf("%s: %s still has time in %s, until %v", what, name, w.Stage, w.DueAt)
		}
		if w.Verdict == finding.Stuck {
			stuck++
		}
	}
	return stuck
}

// TestWaitingPodsAreAnsweredFor compares the report with the trace over the corpus and the
// public threads, also where kinds could not be read.
func TestWaitingPodsAreAnsweredFor(t *testing.T) {
	long.Test(t)
	stuck := 0
	for _, c := range corpus(t) {
		settings := diagnose.Options{Reconcile: c.settings}
		stuck += answered(t, c.name, c.snapshot(t), settings)
		stuck += answered(t, c.name+", mounted", testworld.Mounting(c.snapshot(t)), settings)
		for _, kind := range snapshot.Kinds() {
			answered(t, c.name+" without "+string(kind), fewer(testworld.Mounting(c.snapshot(t)), kind, none), settings)
		}
	}
	for _, th := range readThreads(t) {
		stuck += answered(t, th.name, th.cluster, diagnose.Options{})
	}
	if stuck < 100 {
		t.Errorf("only %d pods are stuck: this shows little", stuck)
	}
}

func TestWaitingPodsOfRandomClusters(t *testing.T) {
	cases := corpusSnapshots(t)
	rapid.Check(t, func(t *rapid.T) {
		answered(t, "a random cluster", testworld.Mounting(testcases.Draw(t, cases)), drawSettings(t))
	})
}
