package diagnose

import (
	"reflect"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestRunAgain: runs and facts that are taken over from the first runs give the same findings
// as checks that run for the first time.
func TestRunAgain(t *testing.T) {
	long.Test(t)
	stood, new := 0, 0
	for path, s := range caseSnapshots(t) {
		for _, ago := range []time.Duration{0, 3 * time.Minute, 20 * time.Minute, 50 * time.Minute} {
			s := snapshot.New(s.TakenAt.Add(-ago), s.Source, s.Objects, s.Gaps)
			world := reconcile.NewWorld(s, reconcile.Options{})
			view := facts.NewView(s, world, world.Reconcile())
			var checks []check.Check
			for _, c := range Checks() {
				if _, lacks := lacking(s, c); c.Run != nil && !lacks {
					checks = append(checks, c)
				}
			}
			runs := runsOf(view, checks)
			sideBySide(runs)
			first := runsOf(facts.NewView(s, world, view.Plan).Later(patience), checks)
			sideBySide(first)
			for i, run := range runAgain(runs, patience) {
				if run == runs[i] {
					stood++
				} else if len(run.Findings) != len(runs[i].Findings) {
					new++
				}
				if diff := gocmp.Diff(first[i].Findings, run.Findings, gocmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
					t.Errorf("%s, %v before: %s (-first look +again):\n%s", path, ago, run.Check.Code, diff)
				}
			}
		}
	}
	if stood == 0 || new == 0 {
		t.Errorf("%d runs stood and %d found something else", stood, new)
	}
}
