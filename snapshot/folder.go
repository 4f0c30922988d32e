package snapshot

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/archive"
)

// ReadFS reads all YAML and JSON files below a directory as one snapshot. In a bundle that it
// recognizes, such as an OpenShift must-gather, a support bundle of troubleshoot.sh or a directory
// of `kubectl cluster-info dump`, it reads the lists. It ignores hidden files and files of other
// types.
func ReadFS(name string, fsys fs.FS, opts ReadOptions) (*Snapshot, []Warning, error) {
	s, warnings, err := readFS(name, fsys, opts)
	if leftOne, ok := errors.AsType[leftOneError](err); ok {
		return readFS(name, fsys, leftOne.again(opts))
	}
	return s, warnings, err
}

func readFS(name string, fsys fs.FS, opts ReadOptions) (*Snapshot, []Warning, error) {
	t := newTree(defaultLimits, opts)
	files, entries := 0, 0
	left := t.limits.unpacked
	// The directory may be a folder within a bundle; its own name is then part of the layout.
	top := path.Base(name)
	if !fs.ValidPath(top) {
		top = "."
	}
	var links []string // links that were not followed
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", plain(path.Join(name, p)), pathError(err))
		case d.IsDir() && hidden(p):
			within, _ := fs.ReadDir(fsys, p)
			for _, file := range within {
				t.passed.noteHidden(path.Join(p, file.Name()))
			}
			return fs.SkipDir
		}
		if entries++; entries > t.limits.files {
			return tooMany(name, t.limits)
		}
		at := path.Join(top, p)
		isLink := d.Type()&fs.ModeSymlink != 0
		if d.IsDir() || !t.wanted(at) {
			if isLink && !hidden(p) && !isFile(fsys, p) {
				links = append(links, plain(p))
			} else if d.Type().IsRegular() && hidden(p) {
				t.passed.noteHidden(p)
			} else if !d.IsDir() && !hidden(p) {
				t.passed.note(p)
				if d.Type().IsRegular() && t.looksInto(p) {
					return t.lookIntoFile(fsys, name, p)
				}
			}
			return nil
		}
		if _, ok := bundleFileOf(at); ok && isLink {
			links = append(links, plain(p)) // no tool makes links there, and it may lead anywhere
			return nil
		}
		// Stat follows links. The test of the mode excludes a pipe, which might never end.
		info, err := fs.Stat(fsys, p)
		if err != nil && isLink {
			return fmt.Errorf("%s: a symbolic link that leads out of the directory, or nowhere; put the file in its place", plain(path.Join(name, p)))
		}
		if err != nil || !info.Mode().IsRegular() {
			if isLink {
				links = append(links, plain(p))
			}
			return err
		}
		if isReadable(p) {
			files++
		}
		f, err := fsys.Open(p)
		if err != nil {
			return fmt.Errorf("%s: %w", plain(path.Join(name, p)), pathError(err))
		}
		defer func() { _ = f.Close() }()
		err = t.file(path.Join(name, p), at, archive.Bounded(f, &left, t.limits.unpacked))
		if errors.Is(err, errNoObjects) {
			t.passed.note(p)
			return nil
		}
		return err
	})
	if err == nil && t.failed != nil && !t.isBundle() {
		err = t.failed
	}
	if err == nil && files == 0 && t.texts == 0 {
		err = t.passed.none(name)
	}
	if err != nil {
		return nil, t.plain.warnings(), err
	}
	s, warnings, err := t.snapshot(name, opts)
	if len(links) > 0 {
		warnings = append(warnings, Warning(fmt.Sprintf("%s: symbolic links in it that are not followed: %s", plain(name), some(links))))
	}
	return s, warnings, err
}

// lookIntoFile looks into a file that is not read. A file that cannot be opened stays passed over.
func (t *tree) lookIntoFile(fsys fs.FS, name, p string) error {
	f, err := fsys.Open(p)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	return t.passed.look(path.Join(name, p), f)
}

// isFile reports whether the path leads to a regular file. A link out of the root leads nowhere.
func isFile(fsys fs.FS, p string) bool {
	info, err := fs.Stat(fsys, p)
	return err == nil && info.Mode().IsRegular()
}

func tooMany(name string, limits limits) error {
	return fmt.Errorf("%s: more than %d files in it", plain(name), limits.files)
}

// pathError returns the error without its path, because the message already begins with it.
func pathError(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// readable reports whether the name is that of a file that is read in a directory or an archive.
func readable(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return !hidden(name)
	}
	return false
}

// unzippedName returns the name without .gz, and whether it had it.
func unzippedName(name string) (string, bool) { return strings.CutSuffix(name, ".gz") }

// isReadable is readable for a name that may end with .gz.
func isReadable(name string) bool {
	name, _ = unzippedName(name)
	return readable(name)
}

// hidden reports whether part of the path begins with a dot: version control, settings of tools,
// and the "._x.json" files that macOS adds to its archives.
func hidden(name string) bool {
	return slices.ContainsFunc(strings.Split(path.Clean(name), "/"), func(s string) bool {
		return strings.HasPrefix(s, ".") && s != "." && s != ".."
	})
}
