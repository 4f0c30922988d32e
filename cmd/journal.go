package cmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// errLocked says that another process holds the lock of a file.
var errLocked = errors.New("another run is writing to this journal")

// journalName is the name of a new journal. Its random part distinguishes two runs of the
// same moment.
func journalName(now time.Time) string {
	var random [4]byte
	_, _ = rand.Read(random[:]) // it never fails
	return fmt.Sprintf("volume-doctor-%s-%x.journal", now.UTC().Format("20060102T150405.000Z"), random)
}

// journalFile is a journal that only this process writes to. From its first entry until it is
// closed an interrupt has to wait.
type journalFile struct {
	*os.File
	interrupts *interrupts
	size       int64
	// made reports whether this process made the file.
	made    bool
	holding bool
}

// openJournal opens a journal to continue it, locks it and cuts off the unfinished line of a
// killed process. flags have os.O_CREATE where it may be made, and os.O_EXCL where it must be
// new.
func openJournal(ctx context.Context, name string, flags int) (*journalFile, []apply.Entry, error) {
	j, err := openJournalFile(name, flags)
	if err != nil {
		return nil, nil, fmt.Errorf("journal %s: %w", name, withoutPath(err))
	}
	j.interrupts = interruptsOf(ctx)
	entries, err := j.prepare()
	if err != nil {
		// j.Close could remove a file that another run has locked.
		return nil, nil, fmt.Errorf("journal %s: %w", name, errors.Join(withoutPath(err), j.File.Close()))
	}
	return j, entries, nil
}

// openJournalFile opens only a regular file: a link may lead to a file that nobody named, and
// a device or a FIFO keeps nothing.
func openJournalFile(name string, flags int) (*journalFile, error) {
	named, err := os.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) && flags&os.O_CREATE != 0 {
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|appendOnly, 0o600)
		if err != nil {
			return nil, err
		}
		syncFolder(name)
		return &journalFile{File: file, made: true}, nil
	}
	switch {
	case err != nil:
		return nil, err
	case flags&os.O_EXCL != 0:
		return nil, fs.ErrExist
	case !named.Mode().IsRegular():
		return nil, fmt.Errorf("it is %s, not a regular file", kindOf(named.Mode()))
	}
	file, err := os.OpenFile(name, os.O_RDWR|appendOnly, 0)
	if err != nil {
		return nil, err
	}
	if opened, err := file.Stat(); err != nil || !os.SameFile(named, opened) {
		return nil, errors.Join(errReplaced, err, file.Close())
	}
	return &journalFile{File: file}, nil
}

var errReplaced = errors.New("it was replaced or removed in this moment; try again")

// prepare locks the file, reads it and leaves it at the end of its last entry.
func (j *journalFile) prepare() ([]apply.Entry, error) {
	switch err := lock(j.File); {
	case errors.Is(err, errLocked):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("lock it: %w; --journal can name a file in another folder", err)
	}
	info, err := j.Stat()
	if err != nil {
		return nil, err
	}
	// The run that had the lock before may have removed the file.
	if named, err := os.Lstat(j.Name()); err != nil || !os.SameFile(named, info) {
		return nil, errReplaced
	}
	entries, intact, err := apply.ReadJournal(j)
	if err != nil {
		return nil, err
	}
	if info.Mode().Perm()&0o077 != 0 {
		if err := j.Chmod(0o600); err != nil {
			return nil, err
		}
	}
	if intact < info.Size() {
		if err := j.Truncate(intact); err != nil {
			return nil, err
		}
	}
	_, err = j.Seek(intact, io.SeekStart)
	j.size = intact
	return entries, err
}

// Write appends one line. It refuses a line that would make the journal too large to be read
// again.
func (j *journalFile) Write(line []byte) (int, error) {
	if j.size+int64(len(line)) > apply.MaxJournal {
		return 0, fmt.Errorf("%s would have more than %d MiB", j.Name(), apply.MaxJournal>>20)
	}
	if !j.holding {
		j.interrupts.hold()
		j.interrupts.exitsWith(exitUndone)
		j.holding = true
	}
	n, err := j.File.Write(line)
	j.size += int64(n)
	return n, err
}

// Close removes a file that is still empty, as it is where rights are missing. It removes the
// file before it gives up the lock; otherwise another run could begin in a file that is about
// to go.
func (j *journalFile) Close() error {
	if j.made && j.size == 0 {
		_ = os.Remove(j.Name()) // an empty file does no harm
	}
	err := j.File.Close()
	if j.holding {
		j.holding = false
		j.interrupts.release()
	}
	return err
}

// kindOf names the kind of a file that is not a regular one.
func kindOf(mode fs.FileMode) string {
	for _, kind := range []struct {
		is   fs.FileMode
		name string
	}{{fs.ModeDir, "a directory"}, {fs.ModeSymlink, "a symbolic link"}, {fs.ModeNamedPipe, "a FIFO"}, {fs.ModeDevice, "a device"}, {fs.ModeSocket, "a socket"}} {
		if mode&kind.is != 0 {
			return kind.name
		}
	}
	return "a special file"
}
