package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// defaultIgnore is read where it exists, unless it came with the examined input.
const defaultIgnore = ".volume-doctor.yaml"

// readIgnore reads the file of suppressions, or the default one where name is "". The
// returned file is "" where none is used. The default one is not used where it may have come
// with the input of -f: whoever made the input could hide faults with it. An input of "" is a
// live cluster.
func readIgnore(name, input string, errOut io.Writer) (file string, list []finding.Suppression, err error) {
	file = name
	if name == "" {
		file = defaultIgnore
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return "", nil, nil
		}
		because := "nobody knows from which folder standard input comes"
		related := input == "-"
		if !related && input != "" {
			because = "it lies in the folder of -f, in one above it or in one below it"
			if related, err = besideInput(file, input); err != nil {
				return "", nil, fmt.Errorf("where does %s lie: %w", file, err)
			}
		}
		if related {
			fmt.Fprintf(errOut, "note: %s is not used, because %s: if it is yours, add --ignore %s\n", file, because, file)
			return "", nil, nil
		}
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return file, nil, fmt.Errorf("read the suppressions: %w", err)
	}
	if list, err = diagnose.ReadSuppressions(data); err != nil {
		return file, nil, fmt.Errorf("%s: %w", file, err)
	}
	for i := range list {
		list[i].File = file
	}
	return file, list, nil
}

// besideInput reports whether the file lies in the folder of the input, in one above it or in
// one below it. It compares the given paths, and the paths that symbolic links lead to.
func besideInput(file, input string) (bool, error) {
	given, real, err := bothPaths(input)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil // reading the input reports it
	}
	if err != nil {
		return false, err
	}
	folders := []string{given, real}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		_, parent, err := bothPaths(filepath.Dir(given))
		if err != nil {
			return false, err
		}
		folders = []string{filepath.Dir(given), parent, filepath.Dir(real)}
	}
	given, real, err = bothPaths(file)
	if err != nil {
		return false, err
	}
	for _, folder := range folders {
		for _, path := range []string{given, real} {
			if within(folder, path) || within(filepath.Dir(path), folder) {
				return true, nil
			}
		}
	}
	return false, nil
}

// within reports whether the path is the folder or below it.
func within(folder, path string) bool {
	rest, err := filepath.Rel(folder, path)
	return err == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(filepath.Separator))
}

// bothPaths are the absolute path, and the same path with symbolic links resolved.
func bothPaths(path string) (given, real string, err error) {
	if given, err = filepath.Abs(path); err == nil {
		real, err = filepath.EvalSymlinks(given)
	}
	return given, real, err
}

// sayHidden names the file that hides findings and their number, once for each number.
func (l *leaveOut) sayHidden(hidden int) {
	if l.ignoreFile == "" || l.said && l.hidden == hidden {
		return
	}
	l.said, l.hidden = true, hidden
	findings := "findings"
	if hidden == 1 {
		findings = "finding"
	}
	fmt.Fprintf(l.errOut, "note: %s hides %d %s: --ignore /dev/null shows all\n", l.ignoreFile, hidden, findings)
}

// sayExpired lists the suppressions that no longer apply: somebody expected the fault to be
// fixed by now.
func (l *leaveOut) sayExpired(w io.Writer, now time.Time) {
	for _, s := range l.Suppressions {
		if s.Expired(now) {
			fmt.Fprintf(w, "warning: %s: line %d: the suppression of %s ended on %s and hides nothing any more: %s\n",
				l.ignoreFile, s.Line, s.Check, s.Until.Format(time.DateOnly), output.Safe(oneLine(s.Reason)))
		}
	}
}
