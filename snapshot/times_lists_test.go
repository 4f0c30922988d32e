package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// podOf is a pod as kubectl prints it; version is its resourceVersion.
func podOf(namespace, name, version string) string {
	return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "` + namespace + `", "name": "` + name + `", "uid": "u-` + name + `", "resourceVersion": "` + version +
		`", "creationTimestamp": "2026-11-20T09:00:00Z"}, "status": {"phase": "Running"}}`
}

func podNames(s *Snapshot) string {
	var names []string
	for _, pod := range s.Pods {
		names = append(names, pod.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestLaterList: of two lists of one kind with an object in common, the later one is what there is: by
// the versions of the objects, and else by their order. A list of one namespace says nothing of others.
func TestLaterList(t *testing.T) {
	a, b, c, other := podOf("shop", "a", "5"), podOf("shop", "b", "6"), podOf("shop", "c", "9"), podOf("web", "w", "3")
	for _, tt := range []struct {
		name, first, second, pods string
		told                      bool
	}{
		{"a pod was deleted and one was made", clusterList(a, b, other), clusterList(a, c, other), "a c w", true},
		{"the first is the later", clusterList(strings.Replace(a, `"5"`, `"8"`, 1), other), clusterList(a, b, other), "a w", true},
		{"the later is of one namespace", clusterList(a, b, other), clusterList(a, c), "a c w", true},
		{"the later is of another namespace", clusterList(a, b), clusterList(other), "a b w", false},
		{"the first has the newer objects, in another file", clusterList(a, c, other), clusterList(a, b, other), "", true},
		{"a single pod is no list", clusterList(a, b, other), a, "a b w", false},
		{"both are the same", clusterList(a, b, other), clusterList(a, b, other), "a b w", false},
	} {
		for form, read := range map[string]func() (*Snapshot, []Warning, error){
			"text": func() (*Snapshot, []Warning, error) {
				return Read("f", strings.NewReader(tt.first+"\n"+tt.second), ReadOptions{Now: noon})
			},
			"folder": func() (*Snapshot, []Warning, error) {
				return ReadFS("f", fstest.MapFS{"1/pods.json": {Data: []byte(tt.first)}, "2/pods.json": {Data: []byte(tt.second)}}, ReadOptions{Now: noon})
			},
		} {
			s, warnings, err := read()
			if err != nil {
				t.Fatalf("%s, %s: %v", tt.name, form, err)
			}
			told := slices.ContainsFunc(warnings, func(w Warning) bool {
				return strings.Contains(string(w), "a later list of pods") && strings.HasSuffix(string(w), ": shop/b")
			})
			want := tt.pods
			if want == "" { // a text is read in its order, and the files of a folder by their versions
				want = map[string]string{"text": "a b w", "folder": "a c w"}[form]
				told = want == "a b w" || told
			}
			if gap := strings.Contains(strings.Join(gapLines(s), "\n"), "was it asked for some by name?"); gap != (tt.name == "the first is the later") {
				t.Errorf("%s, %s: gaps %q", tt.name, form, gapLines(s))
			}
			if got := podNames(s); got != want || told != tt.told {
				t.Errorf("%s, %s: pods %s, not %s; %q", tt.name, form, got, want, warnings)
			}
		}
	}
}

// TestTypedListTwice: several typed lists are each of one namespace only where they have no object in
// common, and none is of several namespaces.
func TestTypedListTwice(t *testing.T) {
	a, b, c, w := podOf("shop", "a", "5"), podOf("shop", "b", "6"), podOf("shop", "c", "9"), podOf("web", "w", "3")
	typed := func(pods ...string) string {
		return `{"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": [` + strings.Join(pods, ",") + "]}\n"
	}
	for name, tt := range map[string]struct {
		text  string
		whole bool
	}{
		"all namespaces twice":          {typed(a, b, w) + typed(a, c, w), true},
		"all namespaces, and one":       {typed(a, b, w) + typed(a, b), true},
		"one namespace twice":           {typed(a, b) + typed(a, b), true},
		"two namespaces":                {typed(a, b) + typed(w), false},
		"two namespaces, and one twice": {typed(a, b) + typed(w) + typed(a, b), false},
	} {
		s, _, err := Read("f", strings.NewReader(tt.text), ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(name, err)
		}
		if s.Complete(Pods) != tt.whole {
			t.Errorf("%s: %q", name, gapLines(s))
		}
	}
}

// TestStatesOfTwoDays: of two states of one cluster in a folder the later is read, and its lists are whole.
func TestStatesOfTwoDays(t *testing.T) {
	state := func(day, version string, pods ...string) *fstest.MapFile {
		nodes := ""
		for i := range 2 {
			nodes += fmt.Sprintf(`,{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n%d", "uid": "n%[1]d", "resourceVersion": %q, "creationTimestamp": "2026-11-01T00:00:00Z"}, "status": {"conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-%sT09:58:00Z"}]}}`, i, version, day)
		}
		return &fstest.MapFile{Data: []byte(`{"apiVersion": "v1", "kind": "List", "items": [` + strings.Join(pods, ",") + nodes + `]}`)}
	}
	for name, files := range map[string]fstest.MapFS{
		"the older is read first": {"monday.json": state("19", "100", podOf("shop", "a", "5"), podOf("shop", "b", "6")), "tuesday.json": state("20", "200", podOf("shop", "a", "5"), podOf("shop", "c", "150"))},
		"the newest pod is gone":  {"monday.json": state("19", "100", podOf("shop", "a", "5"), podOf("shop", "c", "7"), podOf("shop", "b", "9")), "tuesday.json": state("20", "200", podOf("shop", "a", "5"), podOf("shop", "c", "7"))},
		"the older is read last":  {"a.json": state("20", "200", podOf("shop", "a", "5"), podOf("shop", "c", "7")), "b.json": state("19", "100", podOf("shop", "a", "5"), podOf("shop", "c", "7"), podOf("shop", "b", "9"))},
		"the versions do not say": {"a.json": state("20", "200", podOf("shop", "a", "5"), podOf("shop", "c", "5")), "b.json": state("19", "200", podOf("shop", "a", "5"), podOf("shop", "c", "5"), podOf("shop", "b", "5"))},
	} {
		s, warnings, err := ReadFS("f", files, ReadOptions{Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		byName := name != "the older is read first" // the later has no other pod
		if podNames(s) != "a c" || len(s.Nodes) != 2 || !s.Complete(Nodes) || s.Complete(Pods) == byName || !strings.Contains(fmt.Sprint(warnings), "taken for deleted since: shop/b") {
			t.Errorf("%s: pods %s, %d nodes, gaps %q, warnings %q", name, podNames(s), len(s.Nodes), gapLines(s), warnings)
		}
	}
}
