package cmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// defaultIgnore is read where it exists.
const defaultIgnore = ".volume-doctor.yaml"

// readIgnore reads the file of suppressions, or the default one for "".
func readIgnore(name string) (file string, list []finding.Suppression, err error) {
	file = cmp.Or(name, defaultIgnore)
	data, err := os.ReadFile(file)
	if name == "" && errors.Is(err, fs.ErrNotExist) {
		return file, nil, nil
	}
	if err != nil {
		return file, nil, fmt.Errorf("read the suppressions: %w", err)
	}
	if list, err = diagnose.ReadSuppressions(data); err != nil {
		return file, nil, fmt.Errorf("%s: %w", file, err)
	}
	return file, list, nil
}

// sayExpired tells of what comes back: somebody thought it would be mended by now.
func (l *leaveOut) sayExpired(w io.Writer, now time.Time) {
	for _, s := range l.suppressions {
		if s.Expired(now) {
			fmt.Fprintf(w, "warning: %s: line %d: the suppression of %s ended on %s and hides nothing any more: %s\n",
				l.ignoreFile, s.Line, s.Check, s.Until.Format(time.DateOnly), output.Safe(oneLine(s.Reason)))
		}
	}
}
