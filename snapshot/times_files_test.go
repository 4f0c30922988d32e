package snapshot

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	corev1 "k8s.io/api/core/v1"
)

// TestListsOfOtherTimes: lists that are a day apart are told with both times, and the older
// one is not used. A node that is off, and what never changes, is no sign.
func TestListsOfOtherTimes(t *testing.T) {
	node := func(name, day string) string {
		return `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "` + name + `", "creationTimestamp": "2026-11-01T00:00:00Z"}, "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-` + day + `T09:58:00Z"}]}}`
	}
	off := func(name string) string { return strings.Replace(node(name, "19"), `"True"`, `"Unknown"`, 1) }
	list := func(items ...string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(`{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(items, ",") + `]}`)}
	}
	pod := func(day string) string {
		return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "creationTimestamp": "2026-11-` + day + `T09:00:00Z"}}`
	}
	for _, tt := range []struct {
		name      string
		files     fstest.MapFS
		different bool
	}{
		{"all nodes are off", fstest.MapFS{"nodes.json": list(off("n1"), off("n2")), "pods.json": list(pod("20"))}, false},
		{"pods of both days", fstest.MapFS{"nodes.json": list(node("n1", "19"), node("n2", "19"), strings.Replace(pod("19"), `"a"`, `"b"`, 1)), "pods.json": list(pod("20"))}, true},
		{"a day apart", fstest.MapFS{"nodes.json": list(node("n1", "19"), node("n2", "19")), "pods.json": list(pod("20"))}, true},
		{"of one time", fstest.MapFS{"nodes.json": list(node("n1", "20"), node("n2", "20")), "pods.json": list(pod("02"))}, false},
		{"a quarter of an hour apart", fstest.MapFS{"nodes.json": list(node("n1", "20"), node("n2", "20")), "pods.json": list(strings.ReplaceAll(pod("20"), "09:00", "10:14"))}, true},
		{"minutes apart", fstest.MapFS{"nodes.json": list(node("n1", "20"), node("n2", "20")), "pods.json": list(strings.ReplaceAll(pod("20"), "09:00", "10:12"))}, false},
		{"a node is off", fstest.MapFS{"nodes.json": list(node("n1", "19"), node("n2", "20")), "pods.json": list(pod("20"))}, false},
		{"the only node is off", fstest.MapFS{"nodes.json": list(node("n1", "19"), `{"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv", "creationTimestamp": "2026-11-01T00:00:00Z"}}`), "pods.json": list(pod("20"))}, false},
		{"a file for each node", fstest.MapFS{"n1.json": list(node("n1", "19")), "n2.json": list(node("n2", "20"))}, false},
	} {
		s, warnings, err := ReadFS("dir", tt.files, ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		told := slices.ContainsFunc(warnings, func(w Warning) bool {
			return strings.HasPrefix(string(w), "dir/nodes.json is of 2026-11-") && strings.Contains(string(w), ":00Z, and dir/pods.json of 2026-11-20T") && strings.HasSuffix(string(w), "lists of different times contradict each other, and the older one is not used")
		})
		if told != tt.different || s.Complete(Nodes) == tt.different {
			t.Errorf("%s: %q, gaps %q", tt.name, warnings, gapLines(s))
		}
		if used := len(s.Nodes) > 0; used == tt.different {
			t.Errorf("%s: %d nodes", tt.name, len(s.Nodes))
		}
		if tt.files["pods.json"] != nil && (len(s.Pods) != 1 || s.Pods[0].Name != "a") {
			t.Errorf("%s: %d pods", tt.name, len(s.Pods))
		}
	}
}

// TestListsOfOtherTimesAreOneGap: the files of an older folder are named once, for all their kinds,
// and none of their pods counts as read, also where nothing asks about it.
func TestListsOfOtherTimesAreOneGap(t *testing.T) {
	node := func(name, day string) string {
		return `{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "` + name + `", "creationTimestamp": "2026-11-01T00:00:00Z"}, "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-` + day + `T09:58:00Z"}]}}`
	}
	pod := func(name, day string) string {
		return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "` + name + `", "namespace": "shop", "creationTimestamp": "2026-11-` + day + `T09:00:00Z"}, "spec": {"nodeName": "n1"}, "status": {"phase": "Running"}}`
	}
	list := func(items ...string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(`{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(items, ",") + `]}`)}
	}
	none := func(*Objects) func(*corev1.Pod) bool { return func(*corev1.Pod) bool { return false } }
	s, warnings, err := ReadFS("dir", fstest.MapFS{
		"old/1.json": list(node("n1", "18"), node("n2", "18"), pod("a", "18")), "old/2.json": list(node("n3", "19"), node("n4", "19"), pod("b", "19"), pod("c", "19")),
		"new.json": list(pod("d", "20")),
	}, ReadOptions{Now: noon, PodsOfUse: none})
	if err != nil {
		t.Fatal(err)
	}
	want := "dir/old/1.json is of 2026-11-18T09:58:00Z, dir/old/2.json of 2026-11-19T09:58:00Z, and dir/new.json of 2026-11-20T09:00:00Z: lists of different times contradict each other, and the older ones are not used"
	for _, kind := range []Kind{Nodes, Pods} {
		if !slices.ContainsFunc(s.Gaps, func(g Gap) bool { return g.Kind == kind && g.Reason == ReasonOtherTime && g.Detail == want }) {
			t.Errorf("%s: %q", kind, gapLines(s))
		}
	}
	told := 0
	for _, w := range warnings {
		if strings.Contains(string(w), "different times") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("told %d times: %q", told, warnings)
	}
	if got := s.Counts(); got[Pods] != 1 || got[Nodes] != 0 {
		t.Errorf("%d pods and %d nodes count as read; want 1 and 0", got[Pods], got[Nodes])
	}
}

// TestFoldersOfOtherTimes checks the age of lists that are stored as one file for each object, of
// more than a few files, and of two folders of one bundle.
func TestFoldersOfOtherTimes(t *testing.T) {
	lease := func(i int, day string) string {
		return fmt.Sprintf(`{"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "n%d", "namespace": "kube-node-lease", "creationTimestamp": "2026-11-01T00:00:00Z"}, "spec": {"renewTime": "2026-11-%sT09:59:00.000000Z"}}`, i, day)
	}
	node := func(i int, day string) string {
		return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n%d", "creationTimestamp": "2026-11-01T00:00:00Z"}, "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-%sT09:58:00Z"}]}}`, i, day)
	}
	pod := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "creationTimestamp": "2026-11-20T09:00:00Z"}, "status": {"phase": "Running"}}`
	singles := func(day string) map[string]string {
		files := map[string]string{"pods.json": clusterList(pod)}
		for i := range 3 {
			files[fmt.Sprintf("leases/n%d.json", i)] = lease(i, day)
		}
		return files
	}
	many := map[string]string{"pods.json": clusterList(pod)}
	for i := range 300 {
		many[fmt.Sprintf("%03d.json", i)] = clusterList(lease(2*i, "20"), lease(2*i+1, "20"))
	}
	one := maps.Clone(many)
	one["200.json"] = clusterList(lease(400, "19"), lease(401, "19"))
	gather := func(day string) map[string]string {
		return map[string]string{
			"a/cluster-scoped-resources/core/nodes/n1.yaml": node(1, day), "a/cluster-scoped-resources/core/nodes/n2.yaml": node(2, day), "a/timestamp": "1\n2\n",
			"b/cluster-scoped-resources/core/persistentvolumes/p.yaml": clusterObject("PersistentVolume", "p", "1", "1"), "b/timestamp": "1\n2\n",
			"b/namespaces/default/core/pods.yaml": `{"apiVersion": "v1", "kind": "PodList", "items": [` + pod + `]}`,
		}
	}
	for _, tt := range []struct {
		name  string
		files map[string]string
		kind  Kind
		old   string
	}{
		{"a file for each lease", singles("19"), Leases, "dir/leases/n0.json is of 2026-11-19T09:59:00Z, and dir/pods.json of 2026-11-20T09:00:00Z"},
		{"a file for each lease, of the same time", singles("20"), Leases, ""},
		{"one file of hundreds", one, Leases, "dir/200.json is of 2026-11-19T09:59:00Z, and dir/000.json of 2026-11-20T09:59:00Z"},
		{"hundreds of files", many, Leases, ""},
		{"two folders of a bundle", gather("19"), Nodes, "dir/a is of 2026-11-19T09:58:00Z, and dir/b of 2026-11-20T09:00:00Z"},
		{"two folders of a bundle of one time", gather("20"), Nodes, ""},
	} {
		fsys := fstest.MapFS{}
		for name, text := range tt.files {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
		s, warnings, err := ReadFS("dir", fsys, ReadOptions{Now: noon})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		gap := slices.ContainsFunc(s.Gaps, func(g Gap) bool { return g.Kind == tt.kind && g.Reason == ReasonOtherTime })
		told := slices.ContainsFunc(warnings, func(w Warning) bool {
			return strings.HasSuffix(string(w), tt.old+": lists of different times contradict each other, and the older one is not used")
		})
		if gap != (tt.old != "") || tt.old != "" && !told {
			t.Errorf("%s: %q, gaps %q", tt.name, warnings, gapLines(s))
		}
		if used := tt.kind == Leases && len(s.Leases) > 0 || tt.kind == Nodes && len(s.Nodes) > 0; used != (tt.old == "" || tt.name == "one file of hundreds") {
			t.Errorf("%s: %d leases and %d nodes", tt.name, len(s.Leases), len(s.Nodes))
		}
		if len(s.Pods) == 0 {
			t.Errorf("%s: the newer list is not used", tt.name)
		}
	}
}
