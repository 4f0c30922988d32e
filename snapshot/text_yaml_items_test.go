package snapshot

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFirstOfSeveralErrors: items are decoded side by side, and taken in their order: of
// several that are wrong the first is told, whatever comes after it.
func TestFirstOfSeveralErrors(t *testing.T) {
	const right, unusual = "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p%03d\n  status:\n    phase: Running\n", "- {apiVersion: v1, kind: Pod, metadata: {name: p%03d}, status: {phase: Running}}\n"
	wrong := []string{
		"- apiVersion: v1\n  kind: Pod\n  metadata:\n    labels:\n      a: p%03d\n", "- {apiVersion: v1, kind: Pod, metadata: {uid: p%03d}}\n",
		"- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: \"p%03d\xff\"\n",
	}
	rapid.Check(t, func(t *rapid.T) {
		list := "apiVersion: v1\nitems:\n"
		var expected []string
		first := ""
		for i := range rapid.IntRange(1, 3*itemsTogether).Draw(t, "items") {
			form := rapid.SampledFrom(append(slices.Repeat([]string{right}, 40), append(wrong, unusual)...)).Draw(t, "form")
			list += fmt.Sprintf(form, i)
			if form == right || form == unusual {
				expected = append(expected, fmt.Sprintf("p%03d", i))
			} else if first == "" {
				first = list
			}
		}
		read := func(text string) ([]string, string) {
			s, _, err := Read("f", strings.NewReader(text+"kind: List\n"), ReadOptions{Now: noon})
			if err != nil {
				return nil, err.Error()
			}
			var names []string
			for _, pod := range s.Pods {
				names = append(names, pod.Name)
			}
			return names, ""
		}
		names, got := read(list)
		if first != "" {
			if _, want := read(first); want == "" || got != want {
				t.Fatalf("%s\n%q, not %q", list, got, want)
			}
			return
		}
		if got != "" || strings.Join(names, " ") != strings.Join(expected, " ") {
			t.Fatalf("%s\n%s, pods %v, not %v", list, got, names, expected)
		}
	})
}

// TestLargeItems: of items that are as large as a stranger likes no two are held at once.
func TestLargeItems(t *testing.T) {
	c := newReading(defaultLimits, ReadOptions{}).collector()
	const items = 2*itemsTogether + 1
	var list strings.Builder
	list.WriteString("apiVersion: v1\nitems:\n")
	for i := range items {
		fmt.Fprintf(&list, "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p%02d\n    labels:\n      a: %s\n", i, strings.Repeat("x", bytesTogether))
	}
	list.WriteString("kind: List\n")
	if err := c.text("f", strings.NewReader(list.String())); err != nil || c.counts[Pods] != items {
		t.Fatalf("%d pods, %v", c.counts[Pods], err)
	}
	for _, batch := range []*itemBatch{c.yaml.batch, c.yaml.decoding} {
		for i := range batch.items {
			if held := cap(batch.items[i].text); held > largeText {
				t.Errorf("%d bytes are held in the place of an item", held)
			}
		}
	}
}
