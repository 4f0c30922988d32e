package snapshot

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
)

// TestReadBounds reads files that go over one bound each: one line says which.
func TestReadBounds(t *testing.T) {
	long.Test(t)
	pods := func(n int, kind string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "apiVersion: v1\nkind: %s\nmetadata: {name: p%d}\n---\n", kind, i)
		}
		return b.String()
	}
	nested := func(depth int) string {
		return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "x": ` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + "}"
	}
	keys := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ", \"k%d\": 1", i)
		}
		return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": {"a": "b"` + b.String() + "}}}"
	}
	small := limits{
		document: 1 << 20, untyped: 1 << 16, unpacked: 1 << 20, files: 10, lists: 3,
		objects: 10, ofKind: 6, values: 100, depth: 20, yamlValues: 1000,
	}
	for name, tt := range map[string]struct{ in, want string }{
		"objects of one kind":     {pods(7, "Pod"), "f:25: document 7: more than 6 pods in one input"},
		"objects":                 {pods(6, "Pod") + pods(5, "Node"), "f:41: document 11: more than 10 objects in one input"},
		"objects, packed":         {zipped(pods(7, "Pod")), "f:25: document 7: more than 6 pods in one input"},
		"objects of two files":    {tarOf(t, "a.yaml", pods(6, "Pod"), "b.yaml", pods(5, "Node")), "f/b.yaml:17: document 5: more than 10 objects in one input"},
		"items that say no kind":  {"apiVersion: v1\nitems:\n" + strings.Repeat("- a\n", 1000) + "kind: PodList\n", "f:503: document 1, item 501: a list of more than 65536 bytes whose items do not say their kind; write it as JSON"},
		"bytes":                   {strings.Repeat("apiVersion: v1\nkind: Service\n---\n", 1<<16), "f:95326: document 31776: holds more than 1 MiB"},
		"bytes, packed":           {zipped(strings.Repeat("apiVersion: v1\nkind: Service\n---\n", 1<<16)), "f:95326: document 31776: unpacks to more than 1 MiB"},
		"keys":                    {keys(100), "f:1: document 1: Pod a: more than 100 fields and items in one object"},
		"keys in YAML":            {"---\n" + strings.ReplaceAll(keys(1000), ": ", " : "), "f:2: document 1: Pod a: more than 100 fields and items in one object"},
		"keys of a foreign kind":  {"apiVersion: v1\nkind: ConfigMap\ndata:\n" + strings.Repeat("  a: 'b'\n", 1000), "f:1: document 1: more than 1000 lines and commas in one piece"},
		"containers":              {`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [` + strings.Repeat("{},", 100) + "{}]}}", "f:1: document 1: Pod a: more than 100 fields and items in one object"},
		"depth":                   {nested(20), "f:1: document 1: Pod a: nested more than 20 deep"},
		"depth in YAML":           {"---\n" + strings.Replace(nested(30), `"v1"`, "v1", 1), "f:2: document 1: Pod a: nested more than 20 deep"},
		"depth of a foreign kind": {"a: " + strings.Repeat("[", 20000), "f:1: document 1: not YAML: exceeded max depth of 10000"},
		"aliases":                 {"apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nx: &x [" + strings.Repeat("a, ", 100) + "]\ny: &y [" + strings.Repeat("*x, ", 100) + "]\nz: [" + strings.Repeat("*y, ", 100) + "]\n", "f:1: document 1: not YAML: document contains excessive aliasing"},
		"kinds of a header":       {headerOnly + "complete: [" + strings.Repeat("pods, ", 101) + "]\n", "f:1: document 1: Snapshot header: more than 100 kinds in one list"},
		"files of a zip":          {zipOf(t, slicesOf(11, "f%d.txt")...), "f: more than 10 files in it"},
		"bytes of a zip":          {zipOf(t, "a.yaml", pods(1, "Service")+strings.Repeat("# comment\n", 70000), "b.yaml", strings.Repeat("# comment\n", 70000)), "f/b.yaml:34853: document 1: unpacks to more than 1 MiB"},
		"files":                   {tarOf(t, slicesOf(11, "f%d.txt")...), "f: more than 10 files in it"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := read("f", strings.NewReader(tt.in), ReadOptions{Now: noon}, small)
			if err == nil {
				t.Fatalf("no error, want: %s", tt.want)
			}
			checkLine(t, err.Error())
			if !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("got  %s\nwant %s", err, tt.want)
			}
		})
	}
}

func slicesOf(n int, format string) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(format, i), "")
	}
	return list
}

// TestReadBoundsFitLargeClusters: the bounds leave room for twice the largest
// cluster that Kubernetes supports.
func TestReadBoundsFitLargeClusters(t *testing.T) {
	if MaxOfKind < 2*150_000 || MaxObjects < 2*(150_000+4*5_000+3*30_000) {
		t.Errorf("%d objects, %d of one kind", MaxObjects, MaxOfKind)
	}
}

// TestReadIgnoredCostNothing reads 100,000 objects of as many kinds that are not
// read: neither they nor their kinds are held.
func TestReadIgnoredCostNothing(t *testing.T) {
	const n = 100_000
	in, out := io.Pipe()
	go func() {
		for i := range n {
			fmt.Fprintf(out, "{\"apiVersion\": \"x/v1\", \"kind\": \"K%d%s\"}\n", i, strings.Repeat("x", 100))
		}
		_, _ = io.WriteString(out, podJSON)
		_ = out.Close()
	}()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s, warnings, err := Read("f", in, ReadOptions{Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if held := int64(after.HeapAlloc) - int64(before.HeapAlloc); held > 4<<20 {
		t.Errorf("%d KiB are held", held>>10)
	}
	if len(warnings) != maxIgnoredKinds+1 || warnings[maxIgnoredKinds] != "99980 objects of more than 980 other kinds were ignored" {
		t.Errorf("%d warnings: %s", len(warnings), warnings[len(warnings)-1])
	}
	runtime.KeepAlive(s)
}

const podJSON = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}`

func TestAbsurdNumber(t *testing.T) {
	digits := strings.Repeat("9", 65)
	for value, want := range map[string]bool{
		"1e-999999999": true, "+1.5E-9999": true, `\u0031e-9999`: true, `1e\u002d9999`: true, `1\u0065-99\u00399`: true, " 1e-9999": true, "\u2003\u00a01e-9999": true,
		digits: true, digits + "Ki": true, "0." + digits: true, "1234567890123456e9999": true, "1e-9999Ki": false,
		"1e-999": false, "12e4567": false, "123e4567-e89b-12d3-a456-426614174000": false, "8127476Ki": false, "": false, `\`: false,
		strings.Repeat("-", 100): false, "node-1e-99999": false, "123456e789012345678901234567890123456789": false,
		"2026-11-20T10:00:00.000000Z": false, strings.Repeat("f", 10) + digits: false,
	} {
		if got := hasAbsurdNumber([]byte(`{"a":"` + value + `"}`)); got != want {
			t.Errorf("%s: %t, want %t", value, got, want)
		}
	}
	for _, text := range []string{`{"a":1e-99999}`, `1e-99999`, digits} {
		if !hasAbsurdNumber([]byte(text)) {
			t.Errorf("%s: not found without quotes", text)
		}
	}
}

func TestCountValues(t *testing.T) {
	for text, want := range map[string][2]int{
		`{}`: {1, 1}, `"a"`: {0, 0}, `[[],{"a":1,"b":"{[,\"{"}]`: {5, 2}, `{"a":[1,2,3]}`: {4, 2},
	} {
		if values, depth := countValues([]byte(text)); [2]int{values, depth} != want {
			t.Errorf("%s: %d values, %d deep, want %v", text, values, depth, want)
		}
	}
}
