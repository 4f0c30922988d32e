package main

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
)

// Page is docs/mutation.md.
func Page(r *runner, outcomes []Outcome, c *Coverage) string {
	var b strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&b, format, args...) }
	var seen, timing, unit, nobody int
	var latest uint64
	for _, o := range outcomes {
		switch {
		case o.Difference != nil:
			seen++
			latest = max(latest, o.Difference.Seed)
		case o.Timing != "":
			timing++
		case o.UnitTest != "":
			unit++
		default:
			nobody++
		}
	}
	p(`# Mutation

Would [conformance](conformance.md) notice if the model were wrong? `+"`make mutation`"+`
makes one wrong edit at a time to `+"`reconcile/`"+`, in an overlay, and compares random
clusters until a real controller contradicts the model. It writes this page, and
fails where an edit is not contradicted and the list in `+"`e2e/mutation`"+` does not say why.

Up to %d clusters for each release from seed %d, %s: **%d of %d mutants are contradicted
by a controller** in the passes that are compared, the last of them at seed %d. %d more are
by `+"`e2e/timing`"+`, which watches a running controller. Of the other %d a unit test of the
model catches %d.
`, r.clusters, r.seed, strings.Replace(runtime.Version(), "go", "Go ", 1), seen, len(outcomes), latest, timing, unit+nobody, unit)
	if nobody > 0 {
		p("Nothing catches the last %d.\n", nobody)
	}
	p("Each of them is explained [below](#what-no-comparison-contradicts), and was\nlooked for in %d clusters of each of its releases.\n\n", min(r.clusters, unseenClusters))
	p("## Mutants\n\nA seed counts clusters as its mutant makes them: the generator asks the model for\nthe names of volumes. The seconds include the build.\n\n")
	p("| mutant | file | branch | contradicted by | row | seconds |\n|---|---|---|---|---|---|\n")
	for _, o := range outcomes {
		if d := o.Difference; d != nil {
			p("| %s | %s | %s | %s, seed %d | %s | %.0f |\n", o.Name, o.File, cell(o.Branch), d.Release, d.Seed, code(d.Row), o.Seconds)
		}
	}
	p("\n## What no comparison contradicts\n\n| mutant | file | branch | caught by | why not | seconds |\n|---|---|---|---|---|---|\n")
	for _, o := range outcomes {
		if o.Difference != nil {
			continue
		}
		by := "nothing"
		switch {
		case o.Timing != "":
			by = "a running controller: " + code(o.Timing)
		case o.UnitTest != "":
			by = code(o.UnitTest)
		}
		why := o.Unseen
		if o.Err != nil {
			why = "**not tried**"
		}
		if why == "" {
			why = "**not known**"
		}
		p("| %s | %s | %s | %s | %s | %.0f |\n", o.Name, o.File, cell(o.Branch), by, cell(why), o.Seconds)
	}
	coveragePart(p, c)
	return b.String()
}

func coveragePart(p func(string, ...any), c *Coverage) {
	run, all, percent := c.percent(func(string) bool { return true })
	p(`
## Coverage

Comparing %d clusters with each of the %d releases (%d rows, none differs), and no
other test, runs %d of the %d statements of `+"`reconcile/`"+`: **%.1f %%**. Of what until.go says,
a comparison checks the update of a node, the time-out and the failed detach; the rest
it runs, and `+"`e2e/timing`"+` checks.

| not run | block | statements | why |
|---|---|---|---|
`, c.Clusters, len(conformance.Releases), c.Rows, run, all, percent)
	for _, m := range c.Missed {
		why := m.reason()
		if why == "" {
			why = "**not known**"
		}
		p("| %s, %s | %s | %d | %s |\n", m.File, m.Function, code(m.Text), m.Statements, cell(why))
	}
}

func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

func code(s string) string { return "`" + cell(s) + "`" }
