package snapshot

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

const (
	running = "status: {phase: Running}\n"

	podA = "apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: default, creationTimestamp: \"2026-11-20T09:00:00Z\"}\n"
	podB = "apiVersion: v1\nkind: Pod\nmetadata: {name: b, namespace: default, creationTimestamp: \"2026-11-20T09:30:00Z\"}\n"
)

func TestReadErrors(t *testing.T) {
	tests := []struct {
		name string
		in   string
		want string
	}{
		// Nothing to read.
		{"empty", "", "f: no object in it"},
		{"blank", "\n---\n# nothing\n---\n", "f: no object in it"},
		{"empty list", "apiVersion: v1\nitems: []\nkind: List\nmetadata:\n  resourceVersion: \"\"\n", "f: no object in it"},
		{"only other kinds", "apiVersion: v1\nkind: Service\nmetadata: {name: a}\n", "f: no object in it is of a kind that volume-doctor reads"},
		{"no time", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "f: nothing in it says when it was taken; say so with --now"},

		// Not text.
		{"binary", "\x7fELF\x02\x01\x01\x00\x00", "f:1: binary data, neither YAML nor JSON"},
		{"UTF-16", "\xff\xfea\x00p\x00i\x00", "f:1: document 1: not an object"},
		{"Latin-1 YAML", podA + "---\n" + podB + "spec: {hostname: caf\xe9}\n", "f:8: document 2: not UTF-8 text"},
		{"Latin-1 JSON", "{\"apiVersion\": \"v1\",\n\"kind\":\n\"P\xf6d\"}", "f:3: document 1: not UTF-8 text"},
		{"garbage", "\xfa\xfb\xfc\xfd\n\xfe", "f:1: document 1: not UTF-8 text"},
		{"control character", "apiVersion: v1\nkind: \x07Pod\n", "f:1: document 1: not YAML: control characters are not allowed"},

		// Cut off, or broken.
		{"YAML cut in a word", podA + "---\n" + podB + "spec:\n  nodeName: n1\n  hostN", "f:10: document 2: not YAML: could not find expected ':'"},
		{"YAML cut in a text", podA + "spec:\n  nodeName: \"n", "f:5: document 1: not YAML: found unexpected end of stream"},
		{"YAML cut before a value", podA + "spec:\n  nodeName: ", "f:5: document 1: the YAML ends before the value of a field: the file was cut off"},
		{"YAML list cut between items", "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n", "f:1: document 1: a list that does not say its kind: the file was cut off"},
		{"YAML list cut in an item", "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n  metadata: {name: a}\n- apiVersion: v1\n  kind: Pod\n  meta", "f:8: document 1, item 2: not YAML: could not find expected ':'"},
		{"snapshot cut between documents", "apiVersion: volume-doctor/v1\nkind: Snapshot\ntakenAt: \"2026-11-20T10:00:00Z\"\nobjects: 2\n---\n" + podA, "f: the header promises 2 objects and 1 can be read: the file was cut off (or edited: then correct the header's \"objects\")"},
		{"JSON cut", "{\"apiVersion\": \"v1\",\n\"kind\": \"Pod\",\n\"metadata\": {\"na", "f:3: document 1: the JSON ends in the middle: the file was cut off"},
		{"JSON cut before a value", "{\"apiVersion\":", "f:1: document 1: the JSON ends in the middle: the file was cut off"},
		{"JSON cut between fields", "{\"apiVersion\": \"v1\",\n", "f:2: document 1: the JSON ends in the middle: the file was cut off"},
		{"JSON list cut", "{\"kind\": \"List\", \"items\": [\n{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}},\n{\"api", "f:3: document 1, item 2: the JSON ends in the middle: the file was cut off"},
		{"JSON list cut between items", "{\"kind\": \"List\", \"items\": [\n{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {\"name\": \"a\"}},\n", "f:3: document 1, item 2: the JSON ends in the middle: the file was cut off"},
		{"JSON syntax", "{\"apiVersion\": \"v1\",\n\"kind\": \"Pod\",\n\"metadata\": {\n  \"name\": nil}}", "f:4: document 1: not JSON: invalid character 'i' in literal null (expecting 'u')"},
		{"JSON field name", "{\n\n a: b}", "f:3: document 1: not JSON: invalid character 'a'"},
		{"JSON bracket", "{}]", "f:1: document 1: no Kubernetes object: it has neither apiVersion nor kind"},
		{"logs between JSON objects", "{\"apiVersion\": \"v1\", \"kind\": \"Service\"}\n==== START logs ====\n", "f:2: document 2: not an object"},
		{"tab", "apiVersion: v1\nkind: Pod\nmetadata:\n\tname: a\n", "f:4: document 1: not YAML: found character that cannot start any token"},
		{"duplicate key", podA + "spec:\n  nodeName: n1\n  nodeName: n2\n", "f:6: document 1: not YAML: key \"nodeName\" already set in map"},
		{"duplicate key after the items", "items:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\napiVersion: v1\nkind: List\nkind: List\n", "f:5: document 1: not YAML: key \"kind\" already set in map"},
		{"duplicate items", "items:\n- {apiVersion: v1, kind: Pod, metadata: {name: a}}\nkind: List\nitems:\n- a: b\n", "f:5: document 1: not YAML: key \"items\" already set in map"},
		{"duplicate JSON key", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"nodeName": "n1", "nodeName": "n2"}}`, "f:1: document 1: Pod a: duplicate field \"spec.nodeName\""},
		{"duplicate JSON items", `{"items": [], "items": []}`, "f:1: document 1: duplicate field \"items\""},
		{"complex key", "apiVersion: v1\nkind: Pod\n? [a]\n: b\n", "f:1: document 1: not YAML: invalid map key: []interface {}{\"a\"}"},
		{"null key", podA + "~: b\n", "f:1: document 1: a key of type <nil>"},
		{"not a number", podA + "spec: {priority: .nan}\n", "f:1: document 1: NaN is no number of JSON"},
		{"unknown alias", podA + "spec: *x\n", "f:1: document 1: not YAML: unknown anchor 'x' referenced"},
		{"alias bomb", "apiVersion: v1\nkind: Pod\nx: &x " + strings.Repeat("x", 900) + "\ny: [" + strings.Repeat("*x,", 1000) + "]\n", "f:1: document 1: expands to more than 65536 bytes"},

		// Not objects.
		{"a list", "- a\n- b\n", "f:1: document 1, item 1: it must be an object, not a string"},
		{"a word", "\nhello\n", "f:2: document 1: not an object"},
		{"a JSON list", `[{"apiVersion": "v1", "kind": "Pod"}]`, "f:1: document 1, item 1: Pod without metadata.name"},
		{"a JSON list of other things", `[{"name": "a"}]`, "f:1: document 1, item 1: no Kubernetes object: it has neither apiVersion nor kind"},
		{"lists in lists", strings.Repeat(`{"kind": "List", "apiVersion": "v1", "items": [`, 9) + strings.Repeat("]}", 9), "f:1: document 1, item 1: lists in lists, more than 5 deep"},
		{"a table", "NAME    READY   STATUS    RESTARTS   AGE\nweb-0   1/1     Running   0          5d\n", "f:1: a table that kubectl prints for people: write the objects with -o yaml"},
		{"a table after a prompt", "$ kubectl get pods\nNAME    READY   STATUS    RESTARTS   AGE\nweb-0   1/1     Running   0          5d\n", "f:2: document 1: a table that kubectl prints for people: write the objects with -o yaml"},
		{"a table of all namespaces", "NAMESPACE   NAME    READY   STATUS    RESTARTS   AGE\nshop   web-0   1/1     Running   0          5d\n", "f:1: a table that kubectl prints for people: write the objects with -o yaml"},
		{"a table of events", "LAST SEEN   TYPE      REASON   OBJECT      MESSAGE\n2m   Warning   FailedMount   pod/web-0   no\n", "f:1: a table that kubectl prints for people: write the objects with -o yaml"},
		{"a description", "Name:             web-0\nNamespace:        shop\nPriority:         0\n", "f:1: what kubectl describe prints for people: write the objects with -o yaml"},
		{"names", "pod/web-0\npod/web-1\n", "f:1: names of objects: write the objects with -o yaml"},
		{"an answer that refuses", "Error from server (Forbidden): nodes is forbidden: User \"dev\" cannot list resource \"nodes\" in API group \"\" at the cluster scope\n", "f: no object in it"},
		{"JSON after JSON", `{"apiVersion": "v1", "kind": "Service"} 3`, "f:1: document 2: not an object"},
		{"items no list", `{"kind": "List", "items": {}}`, "f:1: document 1: items must be a list"},
		{"an item no object", "kind: List\nitems:\n- a\n", "f:3: document 1, item 1: it must be an object, not a string"},
		{"no kind", "apiVersion: v1\nmetadata: {name: a}\n", "f:1: document 1: an object of v1 without kind"},
		{"no apiVersion", "kind: Pod\nmetadata: {name: a}\n", "f:1: document 1: Pod without apiVersion"},
		{"neither", "replicas: 3\n", "f:1: document 1: no Kubernetes object: it has neither apiVersion nor kind"},
		{"item without kind", "kind: List\napiVersion: v1\nitems:\n- metadata: {name: a}\n", "f:4: document 1, item 1: no Kubernetes object: it has neither apiVersion nor kind"},
		{"kind no string", "apiVersion: v1\nkind: 3\n", "f:1: document 1: kind must be a string, not a number"},
		{"no name", "apiVersion: v1\nkind: Pod\nmetadata: {}\n", "f:1: document 1: Pod without metadata.name"},

		// Wrong types.
		{"spec no object", podA + "spec: 3\n", "f:1: document 1: Pod default/a: spec must be an object, not a number"},
		{"nodeName no string", podA + "---\n" + podB + "spec: {nodeName: [n1]}\n", "f:5: document 2: Pod default/b: spec.nodeName must be a string, not a list"},
		{"priority no number", podA + "spec: {priority: high}\n", "f:1: document 1: Pod default/a: spec.priority must be a whole number that fits int32, not a string"},
		{"hostNetwork no truth", podA + "spec: {hostNetwork: {}}\n", "f:1: document 1: Pod default/a: spec.hostNetwork must be true or false, not an object"},
		{"nameless", "apiVersion: v1\nkind: Pod\nmetadata: 3\n", "f:1: document 1: Pod: metadata must be an object, not a number"},
		{"labels as YAML sees them", "apiVersion: v1\nkind: Node\nmetadata: {name: n1, labels: {a: yes}}\n", "f:1: document 1: Node n1: metadata.labels must be a string, not true or false"},
		{"time", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, creationTimestamp: yesterday}\n", "f:1: document 1: Pod a: parsing time \"yesterday\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"yesterday\" as \"2006\""},
		{"quantity", "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: a}\nspec: {capacity: {storage: much}}\n", "f:1: document 1: PersistentVolume a: quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"},
		{"absurd quantity", "apiVersion: v1\nkind: PersistentVolume\nmetadata: {name: a}\nspec: {capacity: {storage: \"1e-999999999\"}}\n", "f:1: document 1: PersistentVolume a: a number that no API server accepts"},
		{"hostile name", "apiVersion: v1\nkind: Pod\nmetadata: {name: \"a\\e[31m\\nb\"}\nspec: 3\n", `f:1: document 1: Pod a\x1b[31m\nb: spec must be an object, not a number`},

		// Two of one.
		{"twice", podA + "---\n" + podB + "---\n" + podA, "f:9: document 3: Pod default/a is given a second time; the first is at f:1"},
		{"another object", pod("a", "u1", "1") + "---\n" + pod("a", "u2", "2"), "f:5: document 2: Pod default/a is given a second time; the first is at f:1"},

		// The header.
		{"newer header", "apiVersion: volume-doctor/v2\nkind: Snapshot\n", "f:1: document 1: a snapshot of version volume-doctor/v2; this volume-doctor reads volume-doctor/v1"},
		{"two headers", "apiVersion: volume-doctor/v1\nkind: Snapshot\n---\napiVersion: volume-doctor/v1\nkind: Snapshot\n", "f:4: document 2: a second Snapshot header; the first is at f:1"},
		{"header time", "apiVersion: volume-doctor/v1\nkind: Snapshot\ntakenAt: now\n", "f:1: document 1: Snapshot header: takenAt is not a time like 2026-11-20T10:00:00Z: now"},
		{"header type", "apiVersion: volume-doctor/v1\nkind: Snapshot\ncomplete: pods\n", "f:1: document 1: Snapshot header: complete must be a list, not a string"},

		// Too much.
		{"YAML line", podA + "---\nx: " + strings.Repeat("x", 70000), "f:5: document 2: more than 65536 bytes in one piece, which no API object has"},
		{"YAML document", podA + strings.Repeat("# comment\n", 7000), "f:6546: document 1: more than 65536 bytes in one piece, which no API object has"},
		{"JSON string", "\n{\"apiVersion\": \"" + strings.Repeat("x", 140000), "f:2: document 1: more than 65536 bytes in one piece, which no API object has"},
		{"JSON document", "{\"a\": 1" + strings.Repeat(",\"b\": \""+strings.Repeat("x", 1000)+"\"\n", 140) + "}", "f:1: document 1: more than 65536 bytes in one piece, which no API object has"},
		{"untyped items", "apiVersion: v1\nitems:\n" + strings.Repeat("- metadata: {name: "+strings.Repeat("x", 40000)+"}\n", 2), "f:4: document 1, item 2: a list of more than 65536 bytes whose items do not say their kind; write it as JSON"},
		{"gzip bomb", zipped(strings.Repeat("---\n", 1<<18)), "f:131073: document 1: unpacks to more than 524288 bytes"},

		// Archives.
		{"gzip cut", zipped(podA)[:40], "f:1: the gzip data is cut off"},
		{"gzip header cut", "\x1f\x8b\x08", "f: the gzip data is cut off"},
		{"gzip damaged", zipped(podA)[:60] + "\xff\xff\xff\xff\xff\xff\xff\xff", "f:1: the gzip data is damaged (flate: corrupt input before offset "},
		{"tar cut", tarOf(t, "a.yaml", podA)[:600], "f/a.yaml:1: the tar archive is cut off"},
		{"tar damaged", tarOf(t, "logs.txt", "")[:512] + strings.Repeat("x", 1024), "f: the tar archive is damaged"},
		{"zip cut", zipOf(t, "a.yaml", podA)[:60], "f: the zip archive is cut off or damaged: its table of contents cannot be read"},
		{"zip of nothing", zipOf(t, "logs.txt", podA), "f: no .yaml, .yml or .json file in it"},
		{"zip in a zip", zipOf(t, "a/b.zip", zipOf(t, "a.yaml", podA)), "f: no .yaml, .yml or .json file in it, but an archive, which is not opened within another or a folder: name a/b.zip itself, or unpack it"},
		{"zip twice", zipOf(t, "a.yaml", podA) + zipOf(t, "b.yaml", podB), "f: the zip archive is damaged, or stands beside another in one file; give one archive at a time"},
		{"zip bomb", zipOf(t, "a.yaml", strings.Repeat("---\n", 1<<18)), "f/a.yaml:131073: document 1: unpacks to more than 524288 bytes"},
		{"xz cut", xzOf(t, podA)[:40], "f:1: the xz data is cut off"},
		{"xz bomb", xzOf(t, strings.Repeat("---\n", 1<<18)), "f:131073: document 1: unpacks to more than 524288 bytes"},
		{"7-Zip", "7z\xbc\xaf\x27\x1c\x00", "f: packed with 7-Zip, which is not read: unpack it, or pack it with gzip, xz or zip"},
		{"tar of nothing", tarOf(t, "logs.txt", podA), "f: no .yaml, .yml or .json file in it"},
	}
	small := limits{document: 64 << 10, untyped: 64 << 10, unpacked: 512 << 10, files: MaxFiles, lists: MaxLists, objects: MaxObjects, ofKind: MaxOfKind, values: MaxValues, depth: MaxDepth, yamlValues: MaxYAMLValues}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, _, err := read("f", strings.NewReader(tt.in), ReadOptions{}, small)
			if err == nil {
				t.Fatalf("read %d pods, want error: %s", len(s.Pods), tt.want)
			}
			if strings.ContainsAny(err.Error(), "\n\x1b") {
				t.Errorf("not one plain line: %q", err)
			}
			if !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
		})
	}
}

// TestReadEndless reads files without an end: the answer must come once the
// limit is passed.
func TestReadEndless(t *testing.T) {
	for name, tt := range map[string]struct{ begin, repeat string }{
		"YAML line":    {"x: ", "x"},
		"YAML lines":   {"x:\n", "- x\n"},
		"YAML flow":    {"x: [", "a,"},
		"JSON text":    {`{"x": "`, "x"},
		"JSON list":    {`{"x": [`, "[],"},
		"JSON nesting": {`{"x": `, "["},
		"JSON item":    {`{"items": [{"x": "`, "x"},
		"JSON blanks":  {`{"items": [`, "\n"},
		"blank lines":  {"a: b\n", "\n"},
		"spaces":       {"", " "},
		"YAML item":    {"items:\n- x: |\n", "    x\n"},
	} {
		t.Run(name, func(t *testing.T) {
			in := &endless{repeat: tt.repeat}
			small := limits{document: 1 << 20, untyped: 1 << 20, unpacked: 4 << 20, files: MaxFiles, lists: MaxLists, objects: MaxObjects, ofKind: MaxOfKind, values: MaxValues, depth: MaxDepth, yamlValues: MaxYAMLValues}
			_, _, err := read("f", io.MultiReader(strings.NewReader(tt.begin), in), ReadOptions{}, small)
			if err == nil {
				t.Fatal("no error")
			}
			if in.read > 2<<20 {
				t.Errorf("read %d MiB before: %s", in.read>>20, err)
			}
			t.Log(err)
		})
	}
}

// endless is a file without an end.
type endless struct {
	repeat string
	read   int
}

func (e *endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = e.repeat[(e.read+i)%len(e.repeat)]
	}
	e.read += len(p)
	return len(p), nil
}

func pod(name, uid, version string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata: {name: " + name + ", namespace: default, uid: " + uid +
		", resourceVersion: \"" + version + "\", creationTimestamp: \"2026-11-20T09:00:00Z\"}\n"
}

func zipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write([]byte(text))
	_ = w.Close()
	return b.String()
}

// tarOf makes a tar of names and texts in turn.
func tarOf(t testing.TB, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o644, Size: int64(len(files[i+1])), Typeflag: tar.TypeReg, Format: tar.FormatPAX}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// zipOf makes a zip archive of names and texts in turn.
func zipOf(t testing.TB, files ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		entry, err := w.Create(files[i])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := entry.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func xzOf(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	w, err := xz.WriterConfig{DictCap: 1 << 16}.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
