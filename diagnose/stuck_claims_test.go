package diagnose_test

import (
	"slices"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// TestStuckClaims: where the trace of a claim with pods is stuck, the report has a finding that
// makes the command fail. Pods that wait for a node hold nothing up for a claim.
func TestStuckClaims(t *testing.T) {
	stuck := 0
	for _, c := range corpus(t) {
		s := c.snapshot(t)
		report := c.diagnose(s)
		world := reconcile.NewWorld(s, c.settings)
		view := facts.NewView(s, world, world.Reconcile())
		fails := slices.ContainsFunc(report.Findings, func(f finding.Finding) bool { return f.Severity.AtLeast(finding.Warning) })
		for _, claim := range s.Claims {
			use := trace.OfClaim(view, report, claim)
			if use.Verdict.State != finding.Stuck || len(use.Pods) == 0 {
				continue
			}
			if stuck++; !fails {
				t.Errorf("%s: claim %s: %s", c.name, claim.Name, use.Verdict.Message)
			}
		}
	}
	if stuck < 100 {
		t.Errorf("%d claims are stuck: this shows little", stuck)
	}
}
