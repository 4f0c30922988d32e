package snapshot

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFirstOfSeveralErrors: items are decoded side by side, and taken in their order: of
// several that are wrong the first is told, whatever comes after it.
func TestFirstOfSeveralErrors(t *testing.T) {
	const right, unusual = "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p%02d\n", "- {apiVersion: v1, kind: Pod, metadata: {name: p%02d}}\n"
	wrong := []string{
		"- apiVersion: v1\n  kind: Pod\n  metadata:\n    labels:\n      a: p%02d\n", "- {apiVersion: v1, kind: Pod, metadata: {uid: p%02d}}\n",
		"- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: \"p%02d\xff\"\n",
	}
	rapid.Check(t, func(t *rapid.T) {
		list := "apiVersion: v1\nitems:\n"
		var expected []string
		first := ""
		for i := range rapid.IntRange(1, 20).Draw(t, "items") {
			form := rapid.SampledFrom(append([]string{right, right, right, right, unusual}, wrong...)).Draw(t, "form")
			list += fmt.Sprintf(form, i)
			if form == right || form == unusual {
				expected = append(expected, fmt.Sprintf("p%02d", i))
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
	items := 2*len(c.yaml.ahead.texts) + 1
	var list strings.Builder
	list.WriteString("apiVersion: v1\nitems:\n")
	for i := range items {
		fmt.Fprintf(&list, "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p%02d\n    labels:\n      a: %s\n", i, strings.Repeat("x", 4*largeText))
	}
	list.WriteString("kind: List\n")
	if err := c.text("f", strings.NewReader(list.String())); err != nil || c.counts[Pods] != items {
		t.Fatalf("%d pods, %v", c.counts[Pods], err)
	}
	for i := range c.yaml.ahead.texts {
		if held := cap(c.yaml.ahead.texts[i].text); held > 2*largeText {
			t.Errorf("%d bytes are held in the place of an item", held)
		}
	}
}
