package claims

import (
	"slices"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// Answer is when the looks first told of something: times since the world began, 0 for
// never.
type Answer struct {
	// Waits is the first look that has a pod which waits, Suspected the first with a suspected
	// finding of warning or worse, and Warned the first with a certain one.
	Waits, Suspected, Warned time.Duration
	// Codes are the codes of the findings of warning or worse, in the order in which they came.
	Codes []string
}

// Answers are the answers of the looks from a moment on.
func Answers(r *Record, from time.Time) Answer {
	var a Answer
	first := func(to *time.Duration, l Look) {
		if *to == 0 {
			*to = l.At.Sub(r.Began)
		}
	}
	for _, l := range r.Looks {
		if l.At.Before(from) {
			continue
		}
		if len(l.Report.Waiting) > 0 {
			first(&a.Waits, l)
		}
		for _, f := range l.Report.Findings {
			switch {
			case !f.Severity.AtLeast(finding.Warning):
				continue
			case f.Confidence == finding.Suspected:
				first(&a.Suspected, l)
			default:
				first(&a.Warned, l)
			}
			if !slices.Contains(a.Codes, string(f.Code)) {
				a.Codes = append(a.Codes, string(f.Code))
			}
		}
	}
	return a
}
