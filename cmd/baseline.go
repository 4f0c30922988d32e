package cmd

import (
	"fmt"
	"io"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// leaveOut are the findings that the user wants left out of the report: those that somebody
// accepts, and those of an earlier report. They are not repaired either.
type leaveOut struct {
	ignore   string
	baseline string

	ignoreFile string
	finding.LeaveOut

	// hidden is the number of hidden findings that was last printed to errOut, if said.
	errOut io.Writer
	said   bool
	hidden int
}

// read reads the files. input is the value of -f.
func (l *leaveOut) read(input string, stdin io.Reader, errOut io.Writer) (err error) {
	l.errOut = errOut
	if l.ignoreFile, l.Suppressions, err = readIgnore(l.ignore, input, errOut); err != nil {
		return err
	}
	if l.baseline != "" {
		data, err := readSaved(l.baseline, stdin)
		if err == nil {
			l.Baseline, err = readReport(sayInput(l.baseline), data)
		}
		if err != nil {
			return fmt.Errorf("--baseline: %w", err)
		}
	}
	return nil
}

// fits returns an error where the baseline is not one of the sources' clusters.
func (l *leaveOut) fits(several bool, sources ...snapshot.Source) error {
	if l.Baseline == nil {
		return nil
	}
	if err := l.Baseline.Fits(several, sources...); err != nil {
		return fmt.Errorf("--baseline %s: %w", l.baseline, err)
	}
	return nil
}
