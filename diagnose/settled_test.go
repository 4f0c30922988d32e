package diagnose_test

import (
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// TestSettledFindingsHaveASeverity: what a second look makes certain is at least as severe as it was
// while it was suspected.
func TestSettledFindingsHaveASeverity(t *testing.T) {
	settled := 0
	for _, c := range corpus(t) {
		r := c.diagnose(c.snapshot(t))
		since := maps.Collect(func(yield func(string, v1.Time) bool) {
			for _, f := range r.Findings {
				if !yield(f.Fingerprint, v1.NewTime(r.TakenAt.Add(-time.Hour))) {
					return
				}
			}
		})
		for i, f := range r.FoundAgain(since).Findings {
			if before := r.Findings[i]; before.Confidence == finding.Suspected && f.Confidence != finding.Suspected {
				settled++
				if !f.Severity.AtLeast(before.Severity) {
					t.Errorf("%s: %s was %q and is %q", c.Name, f.Code, before.Severity, f.Severity)
				}
			}
		}
	}
	if settled < 20 {
		t.Errorf("only %d findings are settled by another look", settled)
	}
}
