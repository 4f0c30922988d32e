package snapshot

import (
	"bytes"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
)

const headerOnly = "apiVersion: volume-doctor/v1\nkind: Snapshot\ntakenAt: \"2026-11-20T10:00:00Z\"\n"

// TestReadShapes reads the same two pods from all that a file can be.
func TestReadShapes(t *testing.T) {
	jsonA := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "default", "creationTimestamp": "2026-11-20T09:00:00Z"}}`
	jsonB := strings.NewReplacer(`"a"`, `"b"`, "09:00", "09:30").Replace(jsonA)
	untyped := func(s string) string { return strings.Replace(s, `"apiVersion": "v1", "kind": "Pod", `, "", 1) }
	item := func(s, indent string) string {
		return indent + "- " + strings.Join(strings.SplitAfter(strings.TrimSpace(s), "\n"), indent+"  ") + "\n"
	}
	yamlUntyped := strings.NewReplacer("  apiVersion: v1\n", "", "- apiVersion: v1\n  kind: Pod\n  ", "- ").
		Replace(item(podA, "") + item(podB, ""))
	shapes := map[string]string{
		"YAML documents":             podA + "---\n" + podB,
		"YAML, all the marks":        "# hello\n%YAML 1.1\n---\n" + podA + "...\n--- # b\n\n" + podB + "\n---\n---\n# bye\n...\n",
		"JSON after marks":           "--- " + jsonA + "\n--- " + jsonB + "\n",
		"Windows":                    strings.ReplaceAll(podA+"---\n"+podB, "\n", "\r\n"),
		"Windows list":               strings.ReplaceAll("apiVersion: v1\nitems:\n"+item(podA, "")+item(podB, "")+"kind: List\n", "\n", "\r\n"),
		"byte order mark":            "\xef\xbb\xbf" + podA + "---\n" + podB,
		"byte order mark and JSON":   "\xef\xbb\xbf" + jsonA + jsonB,
		"no last line end":           strings.TrimSpace(podA + "---\n" + podB),
		"anchors":                    "apiVersion: &v v1\nkind: List\nitems: [{apiVersion: *v, kind: Pod, metadata: {name: a, namespace: default, creationTimestamp: \"2026-11-20T09:00:00Z\"}}, " + jsonB + "]\n",
		"YAML list":                  "apiVersion: v1\nitems:\n" + item(podA, "") + item(podB, "") + "kind: List\nmetadata: {resourceVersion: \"\"}\n",
		"YAML list, kind first":      "kind: List\napiVersion: v1\nitems:\n" + item(podA, "") + item(podB, ""),
		"YAML list, indented":        "apiVersion: v1\nkind: List\nitems: # two\n# of them\n" + item(podA, "  ") + "  # and\n\n" + item(podB, "  ") + "metadata: {}\n",
		"YAML list in lines":         "kind: List\nitems:\n  -\n    " + strings.ReplaceAll(strings.TrimSpace(podA), "\n", "\n    ") + "\n  - " + jsonB + "\n",
		"YAML list in one value":     "kind: List\nitems: [" + jsonA + ", " + jsonB + "]\n",
		"YAML list below its key":    "kind: List\nitems:\n  [" + jsonA + ", " + jsonB + "]\n",
		"YAML PodList":               "apiVersion: v1\nitems:\n" + yamlUntyped + "kind: PodList\n",
		"YAML PodList, kind first":   "apiVersion: v1\nkind: PodList\nitems:\n" + yamlUntyped,
		"two YAML lists":             "items:\n" + item(podA, "") + "kind: List\n---\nitems:\n" + item(podB, "") + "kind: List\n",
		"JSON objects":               jsonA + "\n" + jsonB,
		"JSON objects on one line":   jsonA + jsonB,
		"JSON list":                  `{"apiVersion": "v1", "items": [` + jsonA + "," + jsonB + `], "kind": "List", "metadata": {}}`,
		"JSON PodList":               `{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [` + untyped(jsonA) + "," + untyped(jsonB) + `]}`,
		"JSON PodList, kind last":    `{"apiVersion": "v1", "items": [` + untyped(jsonA) + "," + untyped(jsonB) + `], "kind": "PodList"}`,
		"JSON lists, one empty":      `{"kind": "List", "items": null}{"kind": "PodList", "apiVersion": "v1", "items": []}{"kind": "List", "items": [` + jsonA + "," + jsonB + `]}`,
		"JSON in YAML documents":     "---\n" + jsonA + "\n---\n" + jsonB + "\n",
		"JSON set apart as YAML":     jsonA + "\n---\n" + jsonB + "\n---\n",
		"a JSON list in YAML":        "---\n" + `{"kind": "List", "items": [` + "\n" + jsonA + ",\n" + jsonB + `]}`,
		"YAML after JSON":            jsonA + "\n---\n" + podB,
		"gzip":                       zipped(podA + "---\n" + podB),
		"two gzip members":           zipped(podA+"---\n") + zipped(podB),
		"tar":                        tarOf(t, "a.yaml", podA, "b.json", jsonB),
		"tar.gz":                     zipped(tarOf(t, "dump/x/a.yml", podA, "dump/x/logs.txt", "\x00", "dump/x/._a.yml", "\x00", "dump/B.JSON", jsonB)),
		"tar.xz":                     xzOf(t, tarOf(t, "a.yaml", podA, "b.json", jsonB)),
		"xz":                         xzOf(t, podA+"---\n"+podB),
		"zip":                        zipOf(t, "dump/", "", "dump/x/a.yml", podA, "dump/x/logs.txt", "\x00", "__MACOSX/._a.yml", "\x00", "dump/B.JSON", jsonB),
		"the same object twice":      pod("a", "u1", "1") + running + "---\n" + pod("a", "u1", "1") + running + "---\n" + podB + running,
		"other kinds in between":     podA + "---\napiVersion: v1\nkind: Secret\nmetadata: 3\n---\n" + podB,
		"a kind with items as field": podA + "---\n" + podB + "---\napiVersion: example.com/v1\nitems:\n- a\n- b: c\nkind: Basket\n",
		"one with others":            jsonA + jsonB + `{"apiVersion": "example.com/v1", "items": {"a": [{}, "b"]}, "kind": "Basket"}{"kind": "Basket", "items": 3, "apiVersion": "v1"}`,
		"one with others in YAML":    podA + "---\n" + podB + "---\napiVersion: example.com/v1\nitems:\n  a: [{}]\n  b:\n  - c\nkind: Basket\n",
	}
	for name, in := range shapes {
		t.Run(name, func(t *testing.T) {
			// As standard input comes, in pieces of any size.
			s, _, err := Read("f", iotest.OneByteReader(strings.NewReader(in)), ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, pod := range s.Pods {
				names = append(names, pod.Namespace+"/"+pod.Name)
			}
			if diff := cmp.Diff([]string{"default/a", "default/b"}, names); diff != "" {
				t.Error(diff)
			}
			if want := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC); !s.TakenAt.Equal(want) {
				t.Errorf("taken at %s, want %s", s.TakenAt, want)
			}
		})
	}
}

func TestReadKubectlGet(t *testing.T) {
	text, err := os.ReadFile("testdata/kubectl-get.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, warnings, err := Read("f", bytes.NewReader(text), ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Nodes) != 1 || len(s.Pods) != 1 {
		t.Fatalf("%d nodes and %d pods, want one of each", len(s.Nodes), len(s.Pods))
	}
	if want := []Warning{"1 object of kind Service (v1) was ignored"}; !slices.Equal(warnings, want) {
		t.Errorf("warnings %q, want %q", warnings, want)
	}
	// The node's heartbeat; not the pod's deletionTimestamp, a day later.
	if want := time.Date(2026, 11, 20, 9, 58, 11, 0, time.UTC); s.TakenAt != want {
		t.Errorf("taken at %s, want %s", s.TakenAt, want)
	}
	if got := s.Nodes[0].Status.Conditions[0].Message; !strings.HasSuffix(got, "\n- it even writes lists here\nkind: of") {
		t.Errorf("message %q", got)
	}
	if s.Source != (Source{Path: "f"}) {
		t.Errorf("source %+v", s.Source)
	}
	want := []Kind{Claims, CSIDrivers, CSINodes, Events, Leases, StorageClasses, VolumeAttachments, Volumes}
	checkGaps(t, s, want, ReasonNotInFile)
}

func TestReadDump(t *testing.T) {
	check := func(t *testing.T, s *Snapshot, warnings []Warning, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Nodes) != 1 || len(s.Pods) != 2 || len(s.Events) != 1 {
			t.Errorf("%d nodes, %d pods, %d events; want 1, 2, 1", len(s.Nodes), len(s.Pods), len(s.Events))
		}
		if s.Events[0].Count != 7 {
			t.Errorf("event %+v", s.Events[0])
		}
		if want := []Warning{"1 object of kind Service (v1) was ignored"}; !slices.Equal(warnings, want) {
			t.Errorf("warnings %q, want %q", warnings, want)
		}
		if want := time.Date(2026, 11, 20, 9, 52, 0, 0, time.UTC); s.TakenAt != want {
			t.Errorf("taken at %s, want %s", s.TakenAt, want)
		}
	}
	t.Run("directory", func(t *testing.T) {
		s, warnings, err := ReadFS("dump", os.DirFS("testdata/dump"), ReadOptions{})
		check(t, s, warnings, err)
	})
	t.Run("tar.gz", func(t *testing.T) {
		var files []string
		dump := os.DirFS("testdata/dump")
		err := fs.WalkDir(dump, ".", func(p string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := fs.ReadFile(dump, p)
			files = append(files, "./dump/"+p, string(text))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		s, warnings, err := Read("dump.tar.gz", strings.NewReader(zipped(tarOf(t, files...))), ReadOptions{})
		check(t, s, warnings, err)
	})
}

func TestReadFS(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	dir := fstest.MapFS{
		"b/pods.yaml":         file(podA),
		"a.YML":               file(podB),
		"empty.yaml":          file(""),
		"z-header.yaml":       file(headerOnly + "complete: [pods]\nobjects: 0\n"),
		".git/config.yaml":    file("\x00"),
		".volume-doctor.yaml": file("ignore: []"),
		"notes.md":            file("\x00"),
		"pipe.json":           &fstest.MapFile{Mode: fs.ModeNamedPipe},
	}
	s, _, err := ReadFS("dir", dir, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Pods) != 2 || s.Source.Path != "dir" || s.TakenAt.Hour() != 10 {
		t.Errorf("%d pods from %q at %s", len(s.Pods), s.Source.Path, s.TakenAt)
	}

	for _, tt := range []struct {
		dir  fs.FS
		want string
	}{
		{fstest.MapFS{}, "dir: no .yaml, .yml or .json file in it"},
		{fstest.MapFS{"a.yaml": file("")}, "dir: no object in it"},
		{fstest.MapFS{"a.json": file(`{"`)}, "dir/a.json:1: document 1: the JSON ends in the middle: the file was cut off"},
		{os.DirFS("/nonexistent"), "dir: no such file or directory"},
	} {
		if _, _, err := ReadFS("dir", tt.dir, ReadOptions{}); err == nil || err.Error() != tt.want {
			t.Errorf("got  %v\nwant %s", err, tt.want)
		}
	}
}
