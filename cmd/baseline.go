package cmd

import (
	"fmt"
	"io"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// leaveOut are the findings that were asked not to be reported: those that
// somebody lives with, and those of an earlier report. They are not repaired
// either.
type leaveOut struct {
	ignore   string
	baseline string

	ignoreFile string
	finding.LeaveOut

	// hidden is how many findings errOut was told the file hides, if said.
	errOut io.Writer
	said   bool
	hidden int
}

// read reads the files. input is what -f names.
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

// fits reports why the baseline is not one for the clusters of the sources.
func (l *leaveOut) fits(several bool, sources ...snapshot.Source) error {
	if l.Baseline == nil {
		return nil
	}
	if err := l.Baseline.Fits(several, sources...); err != nil {
		return fmt.Errorf("--baseline %s: %w", l.baseline, err)
	}
	return nil
}
