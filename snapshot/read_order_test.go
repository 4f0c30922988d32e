package snapshot

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestFirstOfSeveralErrors: of several items that are wrong the first is told, whatever
// comes after it.
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
