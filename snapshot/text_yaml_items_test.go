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
	const pod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p%03d"},"status":{"phase":"Running"}}`
	wrong := []string{`{"apiVersion":"v1","kind":"Pod","metadata":{"labels":{"a":"p%03d"}}}`, `{"apiVersion":"v1","kind":"Pod","metadata":{"uid":"p%03d"}}`,
		"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p%03d\xff\"}}"}
	unusual := strings.Replace(pod, "Running", `Runnin\u0067`, 1)
	for name, of := range map[string]struct {
		begin, right, unusual string
		wrong                 []string
		end                   string
	}{
		"items in YAML": {"apiVersion: v1\nitems:\n", "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p%03d\n  status:\n    phase: Running\n",
			"- {apiVersion: v1, kind: Pod, metadata: {name: p%03d}, status: {phase: Running}}\n", []string{
				"- apiVersion: v1\n  kind: Pod\n  metadata:\n    labels:\n      a: p%03d\n", "- {apiVersion: v1, kind: Pod, metadata: {uid: p%03d}}\n",
				"- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: \"p%03d\xff\"\n",
			}, "kind: List\n"},
		"items in JSON": {`{"kind":"List","apiVersion":"v1","items":[` + fmt.Sprintf(pod, 999), ",\n" + pod, ",\n" + strings.Replace(unusual, `"kind":"Pod",`, `"kind":"Pod","x":"\ud800",`, 1),
			[]string{",\n" + wrong[0], ",\n" + wrong[1], ",\n" + wrong[2], ",\n{p%03d", "\n" + pod}, "]}\n"},
		"documents": {"---\n" + fmt.Sprintf(pod, 999) + "\n", "---\n" + pod + "\n", "---\n{apiVersion: v1, kind: Pod, metadata: {name: p%03d}, status: {phase: Running}}\n",
			[]string{"---\n" + wrong[0] + "\n", "---\n" + wrong[1] + "\n", "---\n" + wrong[2] + "\n", "---\n{p%03d\n", "---\na: [p%03d\n"}, "---\n"},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				list := of.begin
				expected := []string{}
				if strings.Contains(of.begin, "p999") {
					expected = append(expected, "p999")
				}
				first := ""
				for i := range rapid.IntRange(1, 3*itemsTogether).Draw(t, "items") {
					form := rapid.SampledFrom(append(slices.Repeat([]string{of.right}, 40), append(of.wrong, of.unusual)...)).Draw(t, "form")
					list += fmt.Sprintf(form, i)
					if form == of.right || form == of.unusual {
						expected = append(expected, fmt.Sprintf("p%03d", i))
					} else if first == "" {
						first = list
					}
				}
				slices.Sort(expected)
				read := func(text string) ([]string, string) {
					s, _, err := Read("f", strings.NewReader(text+of.end), ReadOptions{Now: noon})
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
		})
	}
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
	for _, batch := range []*itemBatch{c.filling, c.decoding} {
		for i := range batch.items {
			if held := cap(batch.items[i].text); held > largeText {
				t.Errorf("%d bytes are held in the place of an item", held)
			}
		}
	}
}
