package snapshot

import (
	"archive/tar"
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// clusterObject is an object of a cluster, as kubectl prints it.
func clusterObject(kind, name, uid, version string) string {
	return fmt.Sprintf(`{"apiVersion": "v1", "kind": "%s", "metadata": {"name": "%s", "uid": "%s", "resourceVersion": "%s", "creationTimestamp": "2026-11-01T00:00:00Z"}}`, kind, name, uid, version)
}

func clusterList(objects ...string) string {
	return `{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(objects, ",") + `]}`
}

// TestTwoClusters checks that files of two clusters are refused in one line that names both, and
// that files of one cluster at two times, some of whose nodes were remade, are not.
func TestTwoClusters(t *testing.T) {
	node := func(name, uid string) string { return clusterObject("Node", name, uid, "1") }
	system := func(uid string) string { return clusterObject("Namespace", "kube-system", uid, "1") }
	spaces := func(uid string) string {
		return `{"apiVersion": "v1", "kind": "NamespaceList", "items": [` + system(uid) + `]}`
	}
	const (
		byNamespace = "%s and %s are of two clusters (their namespaces kube-system have different UIDs): read one at a time"
		byNodes     = "%s and %s are of two clusters, or of one before and after all its nodes were recreated (no node has the same UID in both, nodes n1 and n2 among them): read one at a time"
	)
	for _, tt := range []struct {
		name  string
		files map[string]string
		err   string
	}{
		{"kube-system has another UID", map[string]string{"a.json": clusterList(node("a1", "1"), system("8")), "b.json": clusterList(node("b1", "2"), system("9"))}, fmt.Sprintf(byNamespace, "dir/a.json", "dir/b.json")},
		{"kube-system twice in one file", map[string]string{"a.json": clusterList(node("a1", "1"), system("8"), system("9"))}, "dir/a.json is of two clusters (its namespaces kube-system have different UIDs): read one at a time"},
		{"the same cluster", map[string]string{"a.json": clusterList(node("a1", "1"), system("8")), "b.json": clusterList(node("b1", "2"), system("8"))}, ""},
		{"a namespace without UID", map[string]string{"a.json": clusterList(node("a1", "1"), system("8")), "b.json": clusterList(node("b1", "2"), system(""))}, ""},
		{"another namespace was made anew", map[string]string{"a.json": clusterList(node("a1", "1"), clusterObject("Namespace", "shop", "8", "1")), "b.json": clusterList(clusterObject("Namespace", "shop", "9", "1"))}, ""},
		{"no node is the same", map[string]string{"a.json": clusterList(node("n1", "1"), node("n2", "2")), "b.json": clusterList(node("n1", "3"), node("n2", "4"))}, fmt.Sprintf(byNodes, "dir/a.json", "dir/b.json")},
		{"no node is the same, and a pod comes first", map[string]string{"a.json": clusterList(clusterObject("Pod", "p", "5", "1"), node("n1", "1"), node("n2", "2")), "b.json": clusterList(clusterObject("Pod", "p", "6", "1"), node("n1", "3"), node("n2", "4"))}, fmt.Sprintf(byNodes, "dir/a.json", "dir/b.json")},
		{"a file for each node", map[string]string{"x/n1.json": node("n1", "1"), "x/n2.json": node("n2", "2"), "y/n1.json": node("n1", "3"), "y/n2.json": node("n2", "4")}, fmt.Sprintf(byNodes, "dir/x", "dir/y")},
		{"the same cluster at two times", map[string]string{"a.json": clusterList(node("n1", "1"), node("n2", "2")), "b.json": clusterList(clusterObject("Node", "n1", "1", "7"), clusterObject("Node", "n2", "2", "8"))}, ""},
		{"one node was made anew", map[string]string{"a.json": clusterList(node("n1", "1")), "b.json": clusterList(node("n1", "3"))}, ""},
		{"one node was made anew, and watched", map[string]string{"a.json": clusterList(node("n1", "1")), "b.json": clusterList(node("n1", "3"), clusterObject("Node", "n1", "3", "2"), clusterObject("Node", "n1", "3", "3"))}, ""},
		{"all nodes but one were made anew", map[string]string{"a.json": clusterList(node("n1", "1"), node("n2", "2"), node("n3", "9")), "b.json": clusterList(node("n1", "3"), node("n2", "4"), node("n3", "9"))}, ""},
		{"nodes without UID", map[string]string{"a.json": clusterList(node("n1", ""), node("n2", "")), "b.json": clusterList(node("n1", ""), node("n2", ""))}, ""},
		{"two must-gathers", map[string]string{
			"a/cluster-scoped-resources/core/namespaces/kube-system.yaml": system("8"), "a/cluster-scoped-resources/core/nodes/n1.yaml": node("n1", "1"),
			"b/cluster-scoped-resources/core/namespaces/kube-system.yaml": system("9"), "b/cluster-scoped-resources/core/nodes/n2.yaml": node("n2", "1"),
		}, fmt.Sprintf(byNamespace, "dir/a", "dir/b")},
		{"two must-gathers without namespaces", map[string]string{
			"a/cluster-scoped-resources/core/nodes/n1.yaml": node("n1", "1"), "a/cluster-scoped-resources/core/nodes/n2.yaml": node("n2", "2"),
			"b/cluster-scoped-resources/core/nodes/n1.yaml": node("n1", "3"), "b/cluster-scoped-resources/core/nodes/n2.yaml": node("n2", "4"),
		}, fmt.Sprintf(byNodes, "dir/a/cluster-scoped-resources/core/nodes", "dir/b/cluster-scoped-resources/core/nodes")},
		{"two must-gathers of one cluster", map[string]string{
			"a/cluster-scoped-resources/core/namespaces/kube-system.yaml": system("8"), "a/cluster-scoped-resources/core/nodes/n1.yaml": node("n1", "1"),
			"b/cluster-scoped-resources/core/namespaces/kube-system.yaml": system("8"), "b/cluster-scoped-resources/core/nodes/n1.yaml": node("n1", "1"),
		}, ""},
		{"two support bundles", map[string]string{
			"a/cluster-resources/nodes.json": `{"apiVersion": "v1", "kind": "NodeList", "items": [` + node("a1", "1") + `]}`, "a/cluster-resources/namespaces.json": spaces("8"),
			"b/cluster-resources/nodes.json": `{"apiVersion": "v1", "kind": "NodeList", "items": [` + node("b1", "1") + `]}`, "b/cluster-resources/namespaces.json": spaces("9"),
		}, fmt.Sprintf(byNamespace, "dir/a", "dir/b")},
	} {
		fsys, packed := fstest.MapFS{}, &bytes.Buffer{}
		archive := tar.NewWriter(packed)
		for _, name := range slices.Sorted(maps.Keys(tt.files)) {
			fsys[name] = &fstest.MapFile{Data: []byte(tt.files[name])}
			if err := archive.WriteHeader(&tar.Header{Name: "dir/" + name, Mode: 0o600, Size: int64(len(tt.files[name]))}); err != nil {
				t.Fatal(err)
			}
			_, _ = archive.Write([]byte(tt.files[name]))
		}
		_ = archive.Close()
		_, warnings, err := ReadFS("dir", fsys, ReadOptions{Now: noon})
		if err != nil && len(warnings) > 0 {
			t.Errorf("%s: %q beside the error", tt.name, warnings)
		}
		if got := fmt.Sprint(err); tt.err == "" && err != nil || tt.err != "" && got != tt.err && got != strings.ReplaceAll(tt.err, "dir/a and dir/b", "a and b") {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		}
		_, _, err = Read("all.tar", packed, ReadOptions{Now: noon})
		if want := tt.err[max(0, strings.Index(tt.err, " of two clusters")):]; (err == nil) != (want == "") || err != nil && !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s, packed: %v, want %q", tt.name, err, tt.err)
		}
	}
	_, _, err := Read("f", strings.NewReader(clusterList(node("a1", "1"), system("8"))+"\n"+clusterList(node("b1", "1"), system("9"))), ReadOptions{Now: noon})
	if want := "f is of two clusters (its namespaces kube-system have different UIDs): read one at a time"; fmt.Sprint(err) != want {
		t.Errorf("one file: %v, want %q", err, want)
	}
}
