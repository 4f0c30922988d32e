package diagnose

import (
	"slices"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestYieldsAreSound: a check yields to an existing one that needs no more than itself and does
// not yield back. Otherwise a gap would bring back what was dropped, or two findings would drop
// each other.
func TestYieldsAreSound(t *testing.T) {
	known := map[finding.Code]check.Check{}
	for _, c := range Checks() {
		known[c.Code] = c
	}
	var circle func(path []finding.Code)
	circle = func(path []finding.Code) {
		last := path[len(path)-1]
		if slices.Contains(path[:len(path)-1], last) {
			t.Errorf("a circle: %v", path)
			return
		}
		for _, y := range known[last].Yields {
			circle(append(slices.Clone(path), y.To))
		}
	}
	for _, c := range Checks() {
		circle([]finding.Code{c.Code})
		var seen []finding.Code
		for _, y := range c.Yields {
			to := known[y.To]
			if to.Run == nil || slices.Contains(seen, y.To) {
				t.Errorf("%s yields to %s, which has no check or stands there twice", c.Code, y.To)
			}
			seen = append(seen, y.To)
			for _, kind := range to.Needs {
				if !slices.Contains(c.Needs, kind) {
					t.Errorf("%s yields to %s, which needs %s: %[1]s needs it, too", c.Code, y.To, kind)
				}
			}
		}
	}
}

// withoutCase are the yields that still need a case.
var withoutCase = [][2]finding.Code{{"VD111", "VD114"}, {"VD112", "VD118"}, {"VD117", "VD114"}, {"VD607", "VD612"}, {"VD614", "VD602"}}

// TestYieldsAreExercised: each yield drops a finding in some case, except those of withoutCase.
// A check that runs alone reports the same as among all.
func TestYieldsAreExercised(t *testing.T) {
	dropped := map[[2]finding.Code]bool{}
	for path, s := range caseSnapshots(t) {
		world := reconcile.NewWorld(s, reconcile.Options{})
		p := facts.NewView(s, world, world.Reconcile())
		var runs []*check.Run
		found := map[finding.Code][]finding.Finding{}
		for _, c := range Checks() {
			if _, lacks := lacking(s, c); c.Run != nil && !lacks {
				runs = append(runs, &check.Run{View: p, Check: c})
			}
		}
		sideBySide(runs)
		for _, run := range runs {
			found[run.Check.Code] = run.Findings
		}
		for _, run := range runs {
			if len(run.Check.Yields) == 0 || len(run.Findings) == 0 {
				continue
			}
			for _, y := range run.Check.Yields {
				one := &check.Run{View: p, Check: check.Check{Yields: []check.Yield{y}}, Findings: run.Findings}
				if len(unyielding(p, one, found)) < len(run.Findings) {
					dropped[[2]finding.Code{run.Check.Code, y.To}] = true
				}
			}
			alone := examine(facts.NewView(s, world, p.Plan), []check.Check{run.Check})
			if want := unyielding(p, run, found); len(alone.Findings) != len(want) {
				t.Errorf("%s: %s alone reports %d findings, and %d among all checks", path, run.Check.Code, len(alone.Findings), len(want))
			}
		}
	}
	for _, c := range Checks() {
		for _, y := range c.Yields {
			pair := [2]finding.Code{c.Code, y.To}
			if dropped[pair] == slices.Contains(withoutCase, pair) {
				t.Errorf("%s yields to %s in a case: %v; the list of those without a case says otherwise", c.Code, y.To, dropped[pair])
			}
		}
	}
}

// TestRelatedIsWhatTheEngineReads: Related lists what the checks declare, from both sides.
func TestRelatedIsWhatTheEngineReads(t *testing.T) {
	names := func(checks []check.Check, code finding.Code) bool {
		return slices.ContainsFunc(checks, func(c check.Check) bool { return c.Code == code })
	}
	all := map[finding.Code]Relatives{}
	for _, c := range Checks() {
		all[c.Code] = Related(c)
	}
	for _, c := range Checks() {
		yields, follows := 0, 0
		for _, y := range c.Yields {
			yields++
			if !names(all[c.Code].YieldsTo, y.To) || !names(all[y.To].TakesPlaceOf, c.Code) {
				t.Errorf("%s yields to %s, and one of them does not list it", c.Code, y.To)
			}
		}
		for _, r := range c.Follows {
			for _, cause := range r.From {
				follows++
				if !names(all[c.Code].FollowsFrom, cause) || !names(all[cause].BringsAbout, c.Code) {
					t.Errorf("%s follows from %s, and one of them does not list it", c.Code, cause)
				}
			}
		}
		if len(all[c.Code].YieldsTo) != yields || len(all[c.Code].FollowsFrom) != follows {
			t.Errorf("%s lists more than it declares: %+v", c.Code, all[c.Code])
		}
	}
}

// caseSnapshots are the clusters of all cases, by their names.
func caseSnapshots(t *testing.T) map[string]*snapshot.Snapshot {
	t.Helper()
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	snapshots := map[string]*snapshot.Snapshot{}
	for _, c := range cases {
		if snapshots[c.Name], err = c.Snapshot(); err != nil {
			t.Fatal(err)
		}
	}
	return snapshots
}
