package cmd

import (
	"fmt"
	"io"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// leaveOut are the findings that were asked not to be reported: those that
// somebody lives with, and those of an earlier report. They are not repaired
// either.
type leaveOut struct {
	ignore   string
	baseline string

	ignoreFile   string
	suppressions []finding.Suppression
	known        *finding.Report
}

func (l *leaveOut) read(stdin io.Reader) (err error) {
	if l.ignoreFile, l.suppressions, err = readIgnore(l.ignore); err != nil {
		return err
	}
	if l.baseline != "" {
		if l.known, err = readReport(l.baseline, stdin); err != nil {
			return fmt.Errorf("--baseline: %w", err)
		}
	}
	return nil
}

// from drops them from the report.
func (l *leaveOut) from(r *finding.Report) error {
	r.Suppress(l.suppressions)
	if l.known == nil {
		return nil
	}
	if err := r.KeepNew(l.known); err != nil {
		return fmt.Errorf("--baseline %s: %w", l.baseline, err)
	}
	return nil
}
