package cmd

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func says(text string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}
}

// holds checks a file's text and mode, and that its folder has no other file.
func holds(t *testing.T, name, text string) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil || string(got) != text {
		t.Errorf("%s holds %q, %v; want %q", name, got, err, text)
	}
	if info, err := os.Lstat(name); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("%s has mode %v, %v", name, info.Mode(), err)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(name), ".volume-doctor-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestWriteFile: only its owner can read a file, also where everybody could before, and an
// error on the way leaves the old one.
func TestWriteFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "report.json")
	if err := writeFile(t.Context(), name, says("new")); err != nil {
		t.Fatal(err)
	}
	holds(t, name, "new")
	if err := os.WriteFile(name, []byte("old, and longer"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(t.Context(), name, says("new")); err != nil {
		t.Fatal(err)
	}
	holds(t, name, "new")
	full := errors.New("no space left on device")
	err := writeFile(t.Context(), name, func(w io.Writer) error { return errors.Join(says("half")(w), full) })
	if !errors.Is(err, full) || !strings.Contains(err.Error(), name) {
		t.Error(err)
	}
	holds(t, name, "new")
}

// TestWriteFileRefuses: nothing is written where the name is a link to a file, a
// folder or a file that may not be written.
func TestWriteFileRefuses(t *testing.T) {
	dir := t.TempDir()
	precious := filepath.Join(dir, "precious")
	if err := os.WriteFile(precious, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustLink(t, "precious", filepath.Join(dir, "link"))
	mustLink(t, "nothing", filepath.Join(dir, "dangling"))
	mustLink(t, ".", filepath.Join(dir, "folder"))
	for name, want := range map[string]string{"link": "symbolic link", "dangling": "symbolic link", "folder": "symbolic link", ".": "a directory", "no/where": "no such file"} {
		err := writeFile(t.Context(), dir+"/"+name, says("other"))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Count(err.Error(), dir) != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
	holds(t, precious, "precious")
	if _, err := os.Lstat(filepath.Join(dir, "nothing")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made through a dangling link: %v", err)
	}
	if err := os.Chmod(precious, 0o400); err != nil {
		t.Fatal(err)
	}
	if os.Getuid() == 0 {
		return // root may write everything
	}
	if err := writeFile(t.Context(), precious, says("other")); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
}

func mustLink(t *testing.T, to, name string) {
	t.Helper()
	if err := os.Symlink(to, name); err != nil {
		if runtime.GOOS == "windows" {
			t.Skip("NOT TRIED: Windows lets none but administrators make links")
		}
		t.Fatal(err)
	}
}

// TestInterruptedWrite: a process that is interrupted while it writes leaves only the old
// file.
func TestInterruptedWrite(t *testing.T) {
	name := filepath.Join(t.TempDir(), "snapshot.yaml")
	if err := os.WriteFile(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	blocked := make(chan struct{})
	defer close(blocked)
	code := exitOf(ctx, func(ctx context.Context) error {
		return writeFile(ctx, name, func(w io.Writer) error {
			err := says("half of the new")(w)
			cancel()
			<-blocked
			return err
		})
	}, io.Discard)
	if code != exitNoAnswer {
		t.Errorf("exit code %d", code)
	}
	holds(t, name, "old")
}
