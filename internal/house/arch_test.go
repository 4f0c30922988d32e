package house

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

// line is the order of the rooms. A package may import those of a later room, and none of its
// own room: the packages of one room do not know each other.
var line = [][]string{
	{"", "standing/kubectl-volume_doctor-serve"},
	{"internal/alerts"},
	{"standing"},
	{"cmd"},
	{"mcp"},
	{"explain"},
	{"output", "cluster"},
	{"repair/apply"},
	{"repair"},
	{"internal/testworld"},
	{"diagnose"},
	{"diagnose/preflight", "diagnose/kubelet"},
	{"diagnose/trace"},
	{
		"diagnose/checks/attached", "diagnose/checks/multiattach", "diagnose/checks/nodestatus",
		"diagnose/checks/blocked", "diagnose/checks/resolution", "diagnose/checks/driver",
	},
	{"diagnose/check"},
	{"diagnose/storage", "diagnose/volumehealth"},
	{"diagnose/scope"},
	{"diagnose/facts"},
	{"diagnose/finding"},
	{"diagnose/docs", "diagnose/driverwords", "diagnose/kubeletwords", "diagnose/step"},
	{"internal/testcases", "internal/golden"},
	{"evidence/controllerlog", "evidence/metrics", "internal/hashnames"},
	{"reconcile"},
	{"snapshot"},
	{"snapshot/backend", "snapshot/intern", "snapshot/index", "snapshot/trim"},
	{"snapshot/yamljson"},
	{"snapshot/archive"},
	{"internal/safetext", "internal/sidebyside"},
	{"internal/long"},
}

// room is the place of the package in the line, -1 where it has none.
func room(pkg string) int {
	return slices.IndexFunc(line, func(room []string) bool { return slices.Contains(room, pkg) })
}

// forTests are the packages that only tests import.
var forTests = []string{"internal/testcases", "internal/testworld", "internal/golden", "internal/alerts", "internal/long"}

// talkers are the packages that may reach a cluster, a terminal or the process.
// The others are pure.
var talkers = []string{"", "standing/kubectl-volume_doctor-serve", "standing", "cmd", "mcp", "cluster"}

// plain are the packages that need nothing but the standard library.
var plain = []string{"diagnose/driverwords", "diagnose/kubeletwords", "diagnose/docs", "diagnose/step", "internal/safetext", "internal/sidebyside"}

// impure are the imports that no pure package has.
var impure = []string{"k8s.io/client-go", "k8s.io/cli-runtime", "github.com/spf13/cobra", "k8s.io/klog", "os", "net", "net/http"}

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
		pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), ".")
		if room(pkg) < 0 {
			t.Errorf("%s: package %q has no room", path, pkg)
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
	for _, pkg := range slices.Concat(line...) {
		if !seen[pkg] {
			t.Errorf("package %q of the line has no files", pkg)
		}
	}
}

func checkImport(t *testing.T, path, pkg, imported string) {
	t.Helper()
	if ours, ok := strings.CutPrefix(imported, module+"/"); ok {
		if room(ours) <= room(pkg) {
			t.Errorf("%s imports %s, which does not stand behind it", path, ours)
		}
		if slices.Contains(forTests, ours) {
			t.Errorf("%s imports %s, which is for tests alone", path, ours)
		}
		return
	}
	if slices.Contains(plain, pkg) && strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
		t.Errorf("%s imports %s, and needs nothing but the standard library", path, imported)
	}
	if imported == "net/url" || imported == "net/netip" || slices.Contains(slices.Concat(talkers, forTests), pkg) {
		return // these two parse and format addresses, and reach none
	}
	for _, banned := range impure {
		if imported == banned || strings.HasPrefix(imported, banned+"/") {
			t.Errorf("%s imports %s", path, imported)
		}
	}
}
