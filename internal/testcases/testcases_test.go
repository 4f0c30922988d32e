package testcases

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
)

// TestBasesAreReal: no base has a field that the API does not have or that nothing reads, and
// each is used by a case.
func TestBasesAreReal(t *testing.T) {
	long.Test(t)
	dir, err := Directory()
	if err != nil {
		t.Fatal(err)
	}
	cases, err := All()
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	for _, c := range cases {
		first, _, _ := strings.Cut(string(c.File("overlay.yaml")), "\n---\n")
		for line := range strings.Lines(first) {
			if base, ok := strings.CutPrefix(line, "base: "); ok {
				used[strings.TrimSpace(base)] = true
			}
		}
	}
	paths, err := filepath.Glob(filepath.Join(dir, "bases", "*.yaml"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no bases: %v", err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		read, err := readBase(dir, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range read.objects {
			// Each object is added to a cluster that has none.
			c, err := (cluster{}).change(name, o)
			if err == nil {
				err = c.mistake()
			}
			if err != nil {
				t.Errorf("base %s: %v", name, err)
			}
		}
		if !used[name] {
			t.Errorf("no case has the base %s", name)
		}
	}
}

// TestOverlaysAreReal: each change of a case changes something, and has no field that the API does
// not have or that nothing reads.
func TestOverlaysAreReal(t *testing.T) {
	dir, err := Directory()
	if err != nil {
		t.Fatal(err)
	}
	cases, err := All()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if err := mistakes(dir, c); err != nil {
			t.Error(err)
		}
	}
}

func mistakes(dir string, c *Case) error {
	overlay := c.File("overlay.yaml")
	if overlay == nil {
		return nil
	}
	_, changes, err := merge(dir, overlay)
	if err != nil {
		return err
	}
	for i, change := range changes {
		if err := change.mistake(); err != nil {
			return fmt.Errorf("%s: overlay.yaml: document %d: %w", c.Path, i+2, err)
		}
	}
	return nil
}

const base = `apiVersion: volume-doctor/v1
kind: Snapshot
takenAt: "2026-11-20T10:00:00Z"
serverVersion: v1.36.3
complete: [nodes, pods]
---
apiVersion: v1
kind: Node
metadata: {name: n1, uid: node-n1}
spec: {unschedulable: true}
---
apiVersion: v1
kind: Pod
metadata: {name: web-0, namespace: default, uid: pod-web-0}
spec: {nodeName: n1}
`

func loaded(t *testing.T, files ...txtar.File) (*Case, error) {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "cases", "x.txtar")
	for _, made := range []string{"cases", "bases"} {
		if err := os.Mkdir(filepath.Join(dir, made), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string][]byte{path: txtar.Format(&txtar.Archive{Files: files}), filepath.Join(dir, "bases", "one.yaml"): []byte(base)} {
		if err := os.WriteFile(name, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	c, err := load(dir, path)
	if err != nil {
		return nil, err
	}
	return c, mistakes(dir, c)
}

func TestOverlay(t *testing.T) {
	c, err := loaded(t, txtar.File{Name: "overlay.yaml", Data: []byte(`base: one
serverVersion: v1.30.0
---
patch: Node n1
metadata: {annotations: {volumes.kubernetes.io/controller-managed-attach-detach: "true"}}
spec: null
---
remove: Pod default/web-0
---
apiVersion: v1
kind: Pod
metadata: {name: web-1, namespace: default}
`)})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // a test may change its copy
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Nodes) != 1 || s.Nodes[0].UID != "node-n1" || s.Nodes[0].Spec.Unschedulable || len(s.Nodes[0].Annotations) != 1 {
			t.Errorf("nodes %v", s.Nodes)
		}
		if len(s.Pods) != 1 || s.Pods[0].Name != "web-1" || s.Source.ServerVersion != "v1.30.0" {
			t.Errorf("pods %v of %v", s.Pods, s.Source)
		}
		s.Pods[0].Name, s.Nodes[0].Annotations = "another", nil
	}
}

// TestOverlayMistakes: each mistake gives a line that says what is wrong, and where.
func TestOverlayMistakes(t *testing.T) {
	for name, tc := range map[string]struct{ overlay, want string }{
		"no base":           {"serverVersion: v1.30.0\n", `the first document has no line "base: NAME"`},
		"unknown base":      {"base: two\n", `no base "two"; there are one`},
		"nothing to patch":  {"base: one\n---\npatch: Pod default/web-1\nspec: {nodeName: n2}\n", `document 2: patch "Pod default/web-1": base one has no such object; it has Node n1, Pod default/web-0`},
		"nothing to remove": {"base: one\n---\nremove: Node n2\n", `document 2: remove "Node n2": base one has no such object`},
		"remove and more":   {"base: one\n---\nremove: Node n1\nspec: {}\n", `nothing else belongs into the document`},
		"no change":         {"base: one\n---\npatch: Node n1\nspec: {unschedulable: true}\n", `patch "Node n1" changes nothing`},
		"another name":      {"base: one\n---\npatch: Node n1\nmetadata: {name: n2}\n", `patch "Node n1" makes it "Node n2"`},
		"twice":             {"base: one\n---\nremove: Node n1\n---\nremove: Node n1\n", `document 3: remove "Node n1": base one has no such object`},
		"patched twice":     {"base: one\n---\npatch: Node n1\nspec: null\n---\npatch: Node n1\nspec: {podCIDR: 10.0.0.0/24}\n", `document 3: Node n1 was changed above already`},
		"there already":     {"base: one\n---\napiVersion: v1\nkind: Node\nmetadata: {name: n1}\n", `Node n1 is in base one already: begin the document with "patch: Node n1"`},
		"no kind":           {"base: one\n---\nspec: {nodeName: n2}\n", `a document without kind or metadata.name`},
		"unknown kind":      {"base: one\n---\napiVersion: v2\nkind: Node\nmetadata: {name: n2}\n", `Node n2: no API has apiVersion v2 with kind Node`},
		"unknown field":     {"base: one\n---\npatch: Pod default/web-0\nspec: {nodename: n2}\n", `Pod default/web-0: unknown field "spec.nodename"`},
		"trimmed":           {"base: one\n---\npatch: Node n1\nstatus: {images: [{names: [app], sizeBytes: 1}]}\n", `Node n1: nothing reads status.images: trim.Object takes it away`},
		"trimmed below":     {"base: one\n---\npatch: Node n1\nmetadata: {annotations: {who: me}}\n", `Node n1: nothing reads metadata.annotations`},
		"not YAML":          {"base: one\n---\npatch: Node n1\nspec: {\n", `document 2: `},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loaded(t, txtar.File{Name: "overlay.yaml", Data: []byte(tc.overlay)})
			if err == nil || !strings.Contains(err.Error(), "x.txtar: overlay.yaml: ") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("says %v, not %q", err, tc.want)
			}
		})
	}
	for _, files := range [][]txtar.File{nil, {{Name: "cluster.yaml", Data: []byte(base)}, {Name: "overlay.yaml", Data: []byte("base: one\n")}}} {
		if _, err := loaded(t, files...); err == nil || !strings.Contains(err.Error(), "either a cluster.yaml or an overlay.yaml") {
			t.Errorf("%d files: %v", len(files), err)
		}
	}
}

// TestWholeCluster: the output of the command snapshot is a case as it stands.
func TestWholeCluster(t *testing.T) {
	c, err := loaded(t, txtar.File{Name: "cluster.yaml", Data: []byte(base)})
	if err != nil {
		t.Fatal(err)
	}
	if s, err := c.Snapshot(); err != nil || len(s.Pods) != 1 || string(c.Cluster) != base {
		t.Errorf("%v, %v", s, err)
	}
}
