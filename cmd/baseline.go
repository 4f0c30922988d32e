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

	// hidden is how many findings errOut was told the file hides, if said.
	errOut io.Writer
	said   bool
	hidden int
}

// read reads the files. input is what -f names.
func (l *leaveOut) read(input string, stdin io.Reader, errOut io.Writer) (err error) {
	l.errOut = errOut
	if l.ignoreFile, l.suppressions, err = readIgnore(l.ignore, input, errOut); err != nil {
		return err
	}
	if l.baseline != "" {
		data, err := readSaved(l.baseline, stdin)
		if err == nil {
			l.known, err = readReport(sayInput(l.baseline), data)
		}
		if err != nil {
			return fmt.Errorf("--baseline: %w", err)
		}
	}
	return nil
}

// from drops them from the report.
func (l *leaveOut) from(r *finding.Report) error {
	before := r.Suppressed
	r.Suppress(l.suppressions)
	l.sayHidden(r.Suppressed - before)
	if l.known == nil {
		return nil
	}
	if err := r.KeepNew(l.known); err != nil {
		return fmt.Errorf("--baseline %s: %w", l.baseline, err)
	}
	return nil
}
