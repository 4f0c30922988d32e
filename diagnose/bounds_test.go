package diagnose_test

import (
	"slices"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// TestMountChecksKeepUpWithTrace: these checks wait no longer than the trace does. In their
// cases, a finding names every pod that the trace calls stuck, also in the near misses that are
// one minute short of the failure.
func TestMountChecksKeepUpWithTrace(t *testing.T) {
	stuck := 0
	for _, c := range corpus(t) {
		if !slices.Contains([]finding.Code{"VD412", "VD413", "VD506", "VD621"}, c.fires()) &&
			!slices.Contains([]string{
				"vd412-near-first-words", "vd412-near-modes-agree", "vd412-near-not-referenced", "vd413-near-two-minutes", "vd413-near-reported-5m",
				"vd506-near-not-mounted", "vd621-near-young-pod", "vd621-near-not-mounted", "vd602-near-not-mounted",
			}, c.name) {
			continue
		}
		s := c.snapshot(t)
		report := c.diagnose(s)
		for _, pod := range s.Pods {
			if diagnose.TracePod(s, pod, diagnose.Options{Reconcile: c.settings}).Verdict.State != finding.Stuck {
				continue
			}
			stuck++
			if !slices.ContainsFunc(report.Findings, func(f finding.Finding) bool { return warns(f, facts.PodName(pod)) }) {
				t.Errorf("%s: the trace calls pod %s stuck, and no finding of warning or worse names it", c.name, facts.PodName(pod))
			}
		}
	}
	if stuck < 10 {
		t.Errorf("only %d pods are stuck", stuck)
	}
}
