package snapshot

import (
	"errors"
	"fmt"
	"path"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/archive"
)

// archive reads the files of an archive as ReadFS reads those of a directory. Their names are used
// only for messages; no path is opened.
func (t *tree) archive(name string, archived archive.Files) error {
	files, entries := 0, 0
	for entry, err := range archived {
		if err != nil {
			if t.failed != nil && !t.isBundle() {
				return t.failed // the first error was in a file, before the archive itself failed
			}
			return fmt.Errorf("%s: %w", plain(name), err)
		}
		if entries++; entries > t.limits.files {
			return tooMany(name, t.limits)
		}
		p := path.Clean(entry.Name)
		if !t.wanted(p) {
			if entry.Kind == archive.Regular && hidden(p) {
				t.passed.noteHidden(p)
			} else if entry.Kind == archive.Regular {
				t.passed.note(p)
				if t.looksInto(p) {
					if err := t.passed.look(path.Join(name, p), entry.Text); err != nil {
						return err
					}
				}
			}
			continue
		}
		if err := t.entry(path.Join(name, p), p, entry); errors.Is(err, errNoObjects) {
			t.passed.note(p)
		} else if err != nil {
			return err
		}
		if entry.Kind == archive.Regular && isReadable(p) {
			files++
		}
	}
	if t.failed != nil && !t.isBundle() {
		return t.failed
	}
	if files == 0 && t.texts == 0 {
		return t.passed.none(name)
	}
	return nil
}

// entry reads an entry that is wanted. The objects in a link or a special file are lost. That is an
// error, except in a bundle, where a missing list is a gap.
func (t *tree) entry(name, p string, entry archive.File) error {
	switch {
	case entry.Kind == archive.Regular:
		return t.file(name, p, entry.Text)
	case entry.Kind == archive.Special && t.failed == nil && !isBundleFile(p):
		t.failed = errors.New(plain(name) + ": a link or a special file in the archive: pack what it leads to, as with tar -h")
	}
	return nil
}
