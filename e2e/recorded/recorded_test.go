package recorded

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestRecordedFingerprint: what changes a question changes it, and nothing else does.
func TestRecordedFingerprint(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.go")
	of := func(text string) string {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		fingerprint, err := Fingerprint(name)
		if err != nil {
			t.Fatal(err)
		}
		return fingerprint
	}
	const code = "package a\n\n// F is one.\nfunc F() int {\n\treturn 1 // at once\n}\n"
	was := of(code)
	if got := of(strings.NewReplacer("// F is one.\n", "// F counts.\n//\n// It is one.\n", " // at once", "").Replace(code)); got != was {
		t.Errorf("comments count: %s and %s", was, got)
	}
	for _, changed := range []string{strings.Replace(code, "1", "2", 1), "//go:build linux\n\n" + code, code + "\nvar x = 1\n"} {
		if of(changed) == was {
			t.Errorf("this makes no difference:\n%s", changed)
		}
	}
	if _, err := Fingerprint(filepath.Join(t.TempDir(), "*.go")); err == nil {
		t.Error("nothing has a fingerprint")
	}
}

// TestRecordedFile: what is written is read again, and by nobody who asks other questions.
func TestRecordedFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "answers.gz")
	w, err := Create(name, "one")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"yes", "no"}
	for _, answer := range want {
		if err := w.Encode(answer); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := Read[string](name, "one"); err != nil || !slices.Equal(got, want) {
		t.Errorf("%v %v", got, err)
	}
	if _, err := Read[string](name, "other"); err == nil || !strings.Contains(err.Error(), "stale") {
		t.Errorf("%v", err)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, text[:len(text)-12], 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Read[string](name, "one"); err == nil {
		t.Errorf("of half a file: %v", got)
	}
}
