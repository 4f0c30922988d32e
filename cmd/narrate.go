package cmd

import (
	"fmt"
	"io"

	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// narrate returns a function that prints the steps of each repair to w. The steps of one repair stand
// below its first, which says what is written.
func narrate(w io.Writer) func(apply.Event) {
	told := "" // the repair of the last step
	return func(e apply.Event) {
		stage, summary := string(e.Stage), output.Safe(e.Summary)
		if e.Stage == apply.Verifying {
			stage = "written; watching that it stays"
		}
		switch {
		case e.Stage == apply.Announcing:
			fmt.Fprintf(w, "no event was written about it: %s\n", oneLine(e.Err.Error()))
		case e.Result != nil:
			fmt.Fprintf(w, "%s: %s\n", summary, output.Safe(ending(e.Result)))
			told = ""
		case summary == told:
			fmt.Fprintf(w, "  %s\n", stage)
		default:
			fmt.Fprintf(w, "%s: %s\n", stage, summary)
			told = summary
		}
	}
}

// ending is the result of a repair, or of taking one back, in words.
func ending(r *apply.Result) string {
	text := string(r.Outcome)
	switch {
	case r.Outcome == apply.Skipped && r.Moot:
		text = "nothing left to do"
	case r.Outcome == apply.Skipped:
		text = "not done"
	}
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	if r.SafeOnce != "" {
		text += "; to make it safe: " + r.SafeOnce
	}
	return text
}
