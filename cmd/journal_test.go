package cmd

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// TestJournalNames: two runs of the same moment in the same folder have different journals.
func TestJournalNames(t *testing.T) {
	t.Chdir(t.TempDir())
	now := time.Now()
	const runs = 64
	var running sync.WaitGroup
	for range runs {
		running.Go(func() {
			j, _, err := openJournal(t.Context(), journalName(now), os.O_CREATE|os.O_EXCL)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := j.Write([]byte("x\n")); err != nil {
				t.Error(err)
			}
			j.Close()
		})
	}
	running.Wait()
	if files, err := filepath.Glob("volume-doctor-*.journal"); err != nil || len(files) != runs {
		t.Errorf("%d journals, %v", len(files), err)
	}
}

// TestJournalIsLocked: only one run at a time writes to a journal.
func TestJournalIsLocked(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal")
	first, _, err := openJournal(t.Context(), name, os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	for _, flags := range []int{0, os.O_CREATE} {
		if _, _, err := openJournal(t.Context(), name, flags); !errors.Is(err, errLocked) || !strings.Contains(err.Error(), name) {
			t.Errorf("a second run: %v", err)
		}
	}
	if _, _, err := openJournal(t.Context(), name, os.O_CREATE|os.O_EXCL); !errors.Is(err, os.ErrExist) {
		t.Errorf("a journal that must be new: %v", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty journal is left: %v", err)
	}
	again, _, err := openJournal(t.Context(), name, os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

// TestEmptyJournalOfSomebodyElse: a run removes only a file that it has made.
func TestEmptyJournalOfSomebodyElse(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	j, _, err := openJournal(t.Context(), name, os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	j.Close()
	if _, err := os.Stat(name); err != nil {
		t.Error(err)
	}
}

// TestJournalRefuses: a file that cannot keep a journal, or is not the named one, is refused.
func TestJournalRefuses(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real")
	if err := os.WriteFile(real, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	mustLink(t, "real", filepath.Join(dir, "link"))
	mustLink(t, "new", filepath.Join(dir, "dangling"))
	for name, want := range map[string]string{
		filepath.Join(dir, "link"):     "a symbolic link",
		filepath.Join(dir, "dangling"): "a symbolic link",
		dir:                            "a directory",
		os.DevNull:                     "a device",
	} {
		if _, _, err := openJournal(t.Context(), name, os.O_CREATE); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "new")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a journal was made through a dangling link: %v", err)
	}
	if _, _, err := openJournal(t.Context(), filepath.Join(dir, "none"), 0); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	j, _, err := openJournal(t.Context(), real, os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	if info, err := os.Stat(real); err != nil || info.Mode().Perm()&0o077 != 0 && os.PathSeparator == '/' {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestJournalIsBounded: a journal never becomes too large to be read again.
func TestJournalIsBounded(t *testing.T) {
	j, _, err := openJournal(t.Context(), filepath.Join(t.TempDir(), "journal"), os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer j.Close()
	j.size = apply.MaxJournal - 1
	if _, err := j.Write([]byte("{}\n")); err == nil || !strings.Contains(err.Error(), "64 MiB") {
		t.Error(err)
	}
}

// TestInterruptWhileItComputes: a computation ends at an interrupt without checking for one.
func TestInterruptWhileItComputes(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	var stop atomic.Bool
	defer stop.Store(true)
	var errOut strings.Builder
	code := exitOf(ctx, func(context.Context) error {
		cancel()
		for !stop.Load() {
		}
		return nil
	}, &errOut)
	if code != exitNoAnswer || errOut.String() != "error: interrupted\n" {
		t.Errorf("exit code %d, %q", code, errOut.String())
	}
}

// TestInterruptWaitsForTheJournal: from the journal's first entry until it is closed, an
// interrupt waits, and the process then ends with 3.
func TestInterruptWaitsForTheJournal(t *testing.T) {
	name := filepath.Join(t.TempDir(), "journal")
	ctx, cancel := context.WithCancel(t.Context())
	written := false
	code := exitOf(ctx, func(ctx context.Context) error {
		j, _, err := openJournal(ctx, name, os.O_CREATE)
		if err != nil {
			return err
		}
		_, err = j.Write([]byte("intent\n"))
		cancel()
		time.Sleep(2 * windDown) // the outcome of the write takes its time
		_, more := j.Write([]byte("outcome\n"))
		written = err == nil && more == nil
		j.Close()
		select {} // a report that takes for ever
	}, &strings.Builder{})
	if code != exitUndone || !written {
		t.Errorf("exit code %d, written %t", code, written)
	}
}
