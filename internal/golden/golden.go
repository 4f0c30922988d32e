// Package golden keeps generated files in agreement with the tests: with -update the files
// are written again, but only once every test has passed. Only tests import it.
package golden

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	update = register()
	mu     sync.Mutex
	kept   = map[string][]byte{}
)

// register registers the flag -update: "" compares, "true" writes into place, and any other
// value is a directory below which the files are written by their paths in the module. make
// collects the files of several packages there before it moves any of them.
func register() *string {
	to := new(string)
	flag.BoolFunc("update", "rewrite the generated files if every test passes; -update=DIR writes them below DIR", func(value string) error {
		*to = value
		if value == "false" {
			*to = ""
		}
		return nil
	})
	return to
}

// Update reports whether the generated files are to be written again.
func Update() bool { return *update != "" }

// Keep writes the file at the end, if every test passes.
func Keep(path string, data []byte) {
	mu.Lock()
	defer mu.Unlock()
	kept[path] = data
}

// Want compares a generated file with the text; with -update the text becomes the file's. The
// test's name must begin with TestGenerated: make generate runs no others.
func Want(t testing.TB, path string, got []byte) {
	t.Helper()
	if !strings.HasPrefix(t.Name(), "TestGenerated") {
		t.Fatalf("%s generates %s; make generate only runs tests named TestGenerated...", t.Name(), path)
	}
	if Update() {
		Keep(path, got)
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("%v: run make generate", err)
		return
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s is stale (-want +got); make generate rewrites it:\n%s", path, diff)
	}
}

// Main runs the tests of a package that generates files, for its TestMain.
func Main(m *testing.M) int {
	code := m.Run()
	if !Update() {
		return code
	}
	if code != 0 {
		fmt.Fprintln(os.Stderr, "no file is written: a test failed")
		return code
	}
	if err := write(*update, kept); err != nil {
		fmt.Fprintf(os.Stderr, "write the generated files: %v\n", err)
		return 1
	}
	return code
}

func write(to string, files map[string][]byte) error {
	for path, data := range files {
		if to != "true" {
			inModule, err := fromModule(path)
			if err != nil {
				return err
			}
			path = filepath.Join(to, inModule)
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fromModule is the path as seen from the directory with go.mod.
func fromModule(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	for dir := filepath.Dir(path); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return strings.TrimPrefix(strings.TrimPrefix(path, dir), string(filepath.Separator)), nil
		}
	}
	return "", fmt.Errorf("%s is in no module", path)
}
