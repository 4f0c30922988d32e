package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/volume-doctor/kubectl-volume-doctor"

// line is the order of the packages: each may import those after it. output and
// cluster stand side by side and do not know each other.
var line = []string{"", "cmd", "output", "cluster", "repair", "diagnose", "reconcile", "snapshot"}

// foreign are imports that a package must not have, whatever its place.
var foreign = map[string][]string{
	"snapshot":  {"k8s.io/client-go", "k8s.io/cli-runtime", "github.com/spf13/cobra", "os", "net", "net/http"},
	"reconcile": {"k8s.io/client-go", "k8s.io/cli-runtime", "github.com/spf13/cobra", "os", "net", "net/http", "k8s.io/klog"},
	"diagnose":  {"k8s.io/client-go", "k8s.io/cli-runtime", "github.com/spf13/cobra", "os", "net", "net/http", "k8s.io/klog"},
	"repair":    {"k8s.io/client-go", "k8s.io/cli-runtime", "github.com/spf13/cobra", "os", "net", "net/http", "k8s.io/klog"},
	"output":    {"k8s.io/client-go", "k8s.io/cli-runtime", "github.com/spf13/cobra", "os", "net", "net/http", "k8s.io/klog"},
	"cluster":   {"github.com/spf13/cobra"},
}

func TestImportsGoOneWay(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name == "e2e" || name == "tools" || name == "testdata" || strings.HasPrefix(name, ".") && name != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if pkg == "." {
			pkg = ""
		}
		place := slices.Index(line, pkg)
		if place < 0 {
			t.Errorf("%s: package %q has no place in the order of packages", path, pkg)
			return nil
		}
		seen[pkg] = true
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return err
			}
			checkImport(t, path, pkg, imported)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range line {
		if !seen[pkg] {
			t.Errorf("package %q of the order has no files", pkg)
		}
	}
}

func checkImport(t *testing.T, path, pkg, imported string) {
	t.Helper()
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		if slices.Index(line, ours) <= slices.Index(line, pkg) {
			t.Errorf("%s imports %s, which stands before it", path, ours)
		}
		if pkg == "output" && ours == "cluster" {
			t.Errorf("%s: output and cluster do not know each other", path)
		}
		return
	}
	if imported == "net/url" {
		return // it writes addresses, and reaches none
	}
	for _, banned := range foreign[pkg] {
		if imported == banned || strings.HasPrefix(imported, banned+"/") {
			t.Errorf("%s imports %s", path, imported)
		}
	}
}
