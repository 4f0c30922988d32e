package repair

import (
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
)

// TestSafeOnce: over the corpus each repair that is refused for good says what would
// make it safe.
func TestSafeOnce(t *testing.T) {
	refused := 0
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		view := Look(s, diagnose.Options{Reconcile: c.Settings}, Consent{})
		Propose(view)
		for _, f := range view.Report.Findings {
			if f.Repair == nil || f.Repair.BlockedBy == "" || len(f.Repair.Commands) > 0 {
				continue
			}
			refused++
			if f.Repair.SafeOnce == "" {
				t.Errorf("%s: %s is refused (%s), and nothing says what would make it safe", c.Name, f.Code, f.Repair.BlockedBy)
			}
		}
	}
	if refused < 40 {
		t.Errorf("only %d repairs are refused", refused)
	}
}
