package house

import (
	"crypto/sha256"
	"flag"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var addCheck = flag.Bool("add-check", false, "add a check to a copy of the module, as CONTRIBUTING.md says, and run its tests; takes minutes")

// newCheck is what somebody writes who adds a check: steps 1, 2 and 4 of
// CONTRIBUTING.md. The check itself is of no use.
var newCheck = map[string]string{
	"testdata/cases/vd699-odd.txtar": `A node has the taint.
-- overlay.yaml --
base: running
---
patch: Node n1
spec: {taints: [{key: example.com/odd, effect: NoSchedule}]}
`,
	"testdata/cases/vd699-near-another-taint.txtar": `The taint is another.
-- overlay.yaml --
base: running
---
patch: Node n1
spec: {taints: [{key: example.com/even, effect: NoSchedule}]}
`,
	"testdata/cases/vd699-near-preference.txtar": `The taint is no more than a preference.
-- overlay.yaml --
base: running
---
patch: Node n1
spec: {taints: [{key: example.com/odd, effect: PreferNoSchedule}]}
`,
	"diagnose/checks/driver/vd699_odd_node.go": `package driver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var OddNode = check.Check{
	Code:     "VD699",
	Name:     "odd-node",
	Title:    "A node has an odd taint",
	Severity: finding.Info,
	Needs:    []snapshot.Kind{snapshot.Nodes},
	Run:      runOddNode,
}

func runOddNode(p *check.Run) {
	for _, node := range p.Snapshot.Nodes {
		for _, taint := range node.Spec.Taints {
			if taint.Key != "example.com/odd" || taint.Effect != corev1.TaintEffectNoSchedule {
				continue
			}
			p.Report(finding.Finding{
				Subject:   finding.Object{Kind: "Node", Name: node.Name, UID: node.UID},
				Node:      facts.NodeName(node),
				Message:   fmt.Sprintf("Node %s has an odd taint", node.Name),
				Cause:     "somebody has set the taint",
				Evidence:  []finding.Evidence{{Object: "node/" + node.Name, Field: "spec.taints", Value: taint.Key}},
				SelfHeals: finding.SelfHeals{Because: "nobody takes the taint off"},
				Advice:    "take the taint off",
			})
		}
	}
}
`,
	"diagnose/docs/VD699.md": `# VD699 odd-node

Do this now: take the taint off:

    kubectl taint nodes NODE odd-

A node has an odd taint.

## Symptom

None.

## Evidence

- The node has the taint.

## Look-alikes

- Other taints.

## Does it heal by itself?

No.

## Repair

Take the taint off.

## Risk

None.

## Dangerous advice

None.

## References

None.
`,
}

// inLists are step 3: the table of checks, and the names that stay for good. Each
// new line comes after the last that looks like it.
var inLists = map[string]struct{ after, line string }{
	"diagnose/all.go":         {`\t\tdriver\.\w+,\n`, "\t\tdriver.OddNode,\n"},
	"diagnose/checks_test.go": {`\t"VD6\d\d": "[a-z-]+",\n`, "\t\"VD699\": \"odd-node\",\n"},
}

// generated are the files that a new check changes beside its own.
var generated = []string{"docs/codes.md"}

// TestAddACheck follows CONTRIBUTING.md in a copy of the module: the six steps are
// enough, and nothing else changes.
func TestAddACheck(t *testing.T) {
	if !*addCheck {
		t.Skip("two minutes and a half of CPU, for tests that run here anyway, in a copy of the module; make add-check runs it")
	}
	dir := t.TempDir()
	copyModule(t, dir)
	before := sums(t, dir)
	byHand := slices.Concat(slices.Collect(maps.Keys(newCheck)), slices.Collect(maps.Keys(inLists)))
	for path, text := range newCheck {
		write(t, filepath.Join(dir, path), text)
	}
	for path, list := range inLists {
		text, err := os.ReadFile(filepath.Join(dir, path))
		if err != nil {
			t.Fatal(err)
		}
		places := regexp.MustCompile(list.after).FindAllIndex(text, -1)
		if len(places) == 0 {
			t.Fatalf("%s has no place for %q", path, list.line)
		}
		end := places[len(places)-1][1]
		write(t, filepath.Join(dir, path), string(text[:end])+list.line+string(text[end:]))
	}
	run := func(name string, arguments ...string) {
		command := exec.Command(name, arguments...)
		command.Dir = dir
		if out, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command.Args, err, out)
		}
	}
	run("make", "generate")
	run("go", "test", "./internal/house", "./diagnose/...", "./output")
	var changed []string
	for path, sum := range sums(t, dir) {
		if before[path] != sum {
			changed = append(changed, path)
		}
	}
	slices.Sort(changed)
	if diff := cmp.Diff(slices.Sorted(slices.Values(slices.Concat(byHand, generated))), changed); diff != "" {
		t.Errorf("the files that changed (-want +got):\n%s", diff)
	}
	written, err := os.ReadFile(filepath.Join(dir, "testdata/cases/vd699-odd.txtar"))
	if err != nil || !strings.Contains(string(written), "info VD699 odd-node") {
		t.Errorf("the case expects: %s, %v", written, err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// copyModule copies what is kept under version control.
func copyModule(t *testing.T, to string) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, entry.Name()):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, path), 0o700)
		case !entry.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, path), data, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// sums are the digests of all files below the directory.
func sums(t *testing.T, dir string) map[string][sha256.Size]byte {
	t.Helper()
	all := map[string][sha256.Size]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		all[filepath.ToSlash(name)] = sha256.Sum256(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
