package cmd

import (
	"fmt"
	"io"

	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// narrate returns a function that prints the steps of each repair to w.
func narrate(w io.Writer) func(apply.Event) {
	return func(e apply.Event) {
		switch {
		case e.Stage == apply.Announcing:
			fmt.Fprintf(w, "no event was written about it: %s\n", oneLine(e.Err.Error()))
		case e.Result == nil && e.Stage == apply.Verifying:
			fmt.Fprintf(w, "written; watching that it stays: %s\n", output.Safe(e.Summary))
		case e.Result == nil:
			fmt.Fprintf(w, "%s: %s\n", e.Stage, output.Safe(e.Summary))
		default:
			fmt.Fprintf(w, "%s: %s\n", output.Safe(e.Summary), output.Safe(ending(e.Result)))
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
