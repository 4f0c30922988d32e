package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
)

// TestReadCut cuts files of every shape at every byte: each time there is an
// error, or the objects that are missing are of kinds with a gap. Absence in a
// file that was cut off must never look like absence in the cluster.
//
// Two shapes that people write by hand show no end, and are not here: objects one
// after the other without a header, and a YAML list without one whose kind comes
// before its items (ADR 2).
func TestReadCut(t *testing.T) {
	long.Test(t)
	var objects []string
	for i := range 3 {
		objects = append(objects,
			fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":"n%d"},"status":{"volumesInUse":["a","b"]}}`, i),
			fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p%d","namespace":"default"},"spec":{"nodeName":"n%d"},"status":{"phase":"Running"}}`, i, i))
	}
	yamls := make([]string, len(objects))
	for i, o := range objects {
		yamls[i] = asYAML(t, o)
	}
	items := func(texts []string) string {
		var b strings.Builder
		for _, text := range texts {
			b.WriteString("- " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n  ") + "\n")
		}
		return b.String()
	}
	kubectl := "apiVersion: v1\nitems:\n" + items(yamls) + "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
	listJSON := `{"apiVersion":"v1","items":[` + strings.Join(objects, ",\n") + `],"kind":"List","metadata":{"resourceVersion":""}}` + "\n"
	whole, _, err := Read("f", strings.NewReader(listJSON), ReadOptions{Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	var own bytes.Buffer
	if err := Write(&own, whole); err != nil {
		t.Fatal(err)
	}
	kindFirst := "kind: List\napiVersion: v1\nitems:\n"
	for name, text := range map[string]string{
		"own":                     own.String(),
		"own, gzip":               zipped(own.String()),
		"kubectl":                 kubectl,
		"kubectl, Windows":        strings.ReplaceAll(kubectl, "\n", "\r\n"),
		"kubectl JSON":            listJSON,
		"list in a JSON document": "---\n" + listJSON,
		"lists of two kinds":      kubectlOf(yamls, items, "Node") + "---\n" + kubectlOf(yamls, items, "Pod"),
		"tar":                     tarOf(t, "nodes.yaml", kubectlOf(yamls, items, "Node"), "log.txt", "x", "pods.json", listOf(objects, "Pod")),
		"tar, one object a file":  tarOf(t, "a.json", objects[1], "b.json", objects[3], "c.json", objects[0], strings.Repeat("d", 120)+".json", objects[5]),
		"tar.gz":                  zipped(tarOf(t, "pods.json", listOf(objects, "Pod"), "more.yaml", kubectlOf(yamls, items, "Node"))),
		"zip":                     zipOf(t, "pods.json", listOf(objects, "Pod"), "more.yaml", kubectlOf(yamls, items, "Node")),
		"tar.xz":                  xzOf(t, tarOf(t, "pods.json", listOf(objects, "Pod"), "more.yaml", kubectlOf(yamls, items, "Node"))),
		"support bundle":          tarOf(t, "s/cluster-resources/nodes.json", listOf(objects, "Node"), "s/cluster-resources/namespaces.json", `{"kind":"NamespaceList","apiVersion":"v1","items":[{"metadata":{"name":"default"}}]}`, "s/cluster-resources/pods/default.json", listOf(objects, "Pod")),
		"must-gather": tarOf(t, "m/cluster-scoped-resources/core/nodes.yaml", kindFirst+items([]string{yamls[0], yamls[2], yamls[4]}),
			"m/timestamp", "2026-11-20 10:00:00 +0000 UTC\n2026-11-20 10:00:00 +0000 UTC\n",
			"m/cluster-scoped-resources/core/namespaces/default.yaml", "", "m/namespaces/default/core/pods.yaml", kubectlOf(yamls, items, "Pod")),
	} {
		t.Run(name, func(t *testing.T) { checkCuts(t, text) })
	}
}

func checkCuts(t *testing.T, text string) {
	whole, _, err := Read("f", strings.NewReader(text), ReadOptions{Now: noon})
	if err != nil {
		t.Fatal(err)
	}
	objects := func(s *Snapshot, kind Kind) []string {
		var list []string
		for object := range resourceOf(kind).all(&s.Objects) {
			raw, err := json.Marshal(object)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, string(raw))
		}
		return list
	}
	for n := range len(text) {
		if len(text) > 4096 && n%512 > 1 && n%512 < 511 && n%61 > 0 {
			continue // an archive is mostly zeros
		}
		s, _, err := Read("f", strings.NewReader(text[:n]), ReadOptions{Now: noon})
		if err != nil {
			checkLine(t, err.Error())
			continue
		}
		for _, kind := range Kinds() {
			if s.Complete(kind) && !slices.Equal(objects(s, kind), objects(whole, kind)) {
				t.Errorf("cut after byte %d of %d: %d %s instead of %d, and they count as complete; the end is %q",
					n, len(text), countOf(s, kind), kind, countOf(whole, kind), text[max(0, n-60):n])
				return
			}
		}
	}
}

// ofKind picks the objects of one kind.
func ofKind(texts []string, kind string) []string {
	var list []string
	for _, text := range texts {
		if strings.Contains(text, `"kind":"`+kind+`"`) || strings.Contains(text, "kind: "+kind+"\n") {
			list = append(list, text)
		}
	}
	return list
}

func kubectlOf(yamls []string, items func([]string) string, kind string) string {
	return "apiVersion: v1\nitems:\n" + items(ofKind(yamls, kind)) + "kind: List\nmetadata:\n  resourceVersion: \"\"\n"
}

func listOf(objects []string, kind string) string {
	return `{"kind":"` + kind + `List","apiVersion":"v1","metadata":{},"items":[` + strings.Join(ofKind(objects, kind), ",") + `]}`
}

func asYAML(t *testing.T, text string) string {
	t.Helper()
	var value map[string]any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	out, err := YAML(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
