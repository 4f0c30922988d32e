package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// FuzzRead holds any bytes against what is written of them and read again: an
// error is one line, or the same snapshot comes back.
func FuzzRead(f *testing.F) {
	for _, file := range []string{"testdata/kubectl-get.yaml", "testdata/snapshot.golden.yaml", "testdata/dump/default/events.json"} {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
		f.Add(text[:len(text)/2])
	}
	for _, text := range []string{
		loaded, podA + "---\n" + podB, zipped(podA), tarOf(f, "a.yaml", podA), zipped(tarOf(f, "a.json", "{}")), zipOf(f, "a.yaml", podA), xzOf(f, podA),
		`{"items":[{"metadata":{"name":"a"}}],"kind":"PodList","apiVersion":"v1"}`, "items:\n  -\n    a: &a [*a]\n", "? a\n: b", "{}{}---", "\xff\xfe", "--- !!binary |\n  a\n...\n%TAG ! b\n",
		`{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"a"},"spec":{"capacity":{"storage":"1e-999"}}}`,
	} {
		f.Add([]byte(text))
	}
	small := defaultLimits
	small.document, small.untyped, small.unpacked, small.files, small.lists = 64<<10, 64<<10, 256<<10, 100, 20
	f.Fuzz(func(t *testing.T, in []byte) {
		s, warnings, err := read("f", bytes.NewReader(in), ReadOptions{Now: noon}, small)
		for _, w := range warnings {
			checkLine(t, string(w))
		}
		kept, keptWarnings, keptErr := read("f", bytes.NewReader(in), ReadOptions{Now: noon, PodsOfUse: onDrained}, small)
		if fmt.Sprint(warnings, err) != fmt.Sprint(keptWarnings, keptErr) {
			t.Fatalf("where not all pods are kept: %v, %v; else %v, %v", keptWarnings, keptErr, warnings, err)
		}
		if err != nil {
			checkLine(t, err.Error())
			return
		}
		if kept.Counts()[Pods] != len(s.Pods) {
			t.Fatalf("%d of %d pods count as read where not all are kept", kept.Counts()[Pods], len(s.Pods))
		}
		if len(kept.Pods) != len(s.Pods) {
			wants := onDrained(&s.Objects)
			s := New(s.TakenAt, s.Source, s.Objects, s.Gaps)
			s.Pods = slices.DeleteFunc(slices.Clone(s.Pods), func(pod *corev1.Pod) bool { return !wants(pod) })
			if diff := cmp.Diff(written(t, s), written(t, kept)); diff != "" {
				t.Fatalf("-what is of use +what is kept: %s", diff)
			}
		}
		text := written(t, s)
		back, _, err := Read("g", strings.NewReader(text), ReadOptions{})
		// a time that is given is not checked against the objects
		if err != nil && strings.Contains(err.Error(), "is contradicted") {
			back, _, err = Read("g", strings.NewReader(text), ReadOptions{Now: noon})
		}
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(text, written(t, back)); diff != "" {
			t.Fatalf("another snapshot comes back: %s", diff)
		}
	})
}

// onDrained are the pods with a volume, and those of nodes that are deleted.
func onDrained(o *Objects) func(*corev1.Pod) bool {
	deleted := map[string]bool{}
	for _, node := range o.Nodes {
		deleted[node.Name] = node.DeletionTimestamp != nil
	}
	return func(pod *corev1.Pod) bool { return len(pod.Spec.Volumes) > 0 || deleted[pod.Spec.NodeName] }
}

func checkLine(t *testing.T, line string) {
	t.Helper()
	if len(line) > 2000 {
		t.Errorf("%d bytes: %s", len(line), line)
	}
	for _, r := range line {
		if !unicode.IsPrint(r) {
			t.Errorf("%q is not printable in: %q", r, line)
		}
	}
}

// BenchmarkRead reads a list of pods as kubectl writes it.
func BenchmarkRead(b *testing.B) {
	text, err := os.ReadFile("testdata/kubectl-get.yaml")
	if err != nil {
		b.Fatal(err)
	}
	_, pod, _ := strings.Cut(string(text), "- apiVersion: v1\n  kind: Pod\n")
	pod, _, _ = strings.Cut(pod, "- apiVersion")
	list := &strings.Builder{}
	list.WriteString("apiVersion: v1\nitems:\n")
	for i := range 1000 {
		fmt.Fprintf(list, "- apiVersion: v1\n  kind: Pod\n%s", strings.ReplaceAll(pod, "web-0", fmt.Sprintf("web-%d", i)))
	}
	list.WriteString("kind: List\n")
	s, _, err := Read("f", strings.NewReader(list.String()), ReadOptions{})
	if err != nil {
		b.Fatal(err)
	}
	var own bytes.Buffer
	if err := Write(&own, s); err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct{ name, text string }{
		{"kubectl YAML", list.String()},
		{"own file", own.String()},
		{"JSON", podsJSON(b, s)},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.SetBytes(int64(len(bb.text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := Read("f", strings.NewReader(bb.text), ReadOptions{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func podsJSON(b *testing.B, s *Snapshot) string {
	text, err := json.Marshal(map[string]any{"kind": "PodList", "apiVersion": "v1", "items": s.Pods})
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}
