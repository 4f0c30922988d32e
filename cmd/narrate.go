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
		stage := string(e.Stage)
		if e.Stage == apply.Verifying {
			stage = "written; watching that it stays"
		}
		switch {
		case e.Stage == apply.Announcing:
			say(w, "no event was written about it: "+e.Err.Error())
		case e.Result != nil:
			say(w, e.Summary+": "+ending(e.Result))
			told = ""
		case e.Summary == told:
			fmt.Fprintf(w, "  %s\n", stage)
		default:
			say(w, stage+": "+e.Summary)
			told = e.Summary
		}
	}
}

// say prints a line of what is being done, wrapped to a terminal's columns.
func say(w io.Writer, text string) { output.Tell(w, text, output.Options{Width: columns(w)}) }

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
