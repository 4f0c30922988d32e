package snapshot

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEventsDueElsewhere: the events of a namespace are a gap where its pod waits on a Ready node, whose
// kubelet tells of it again and again, and a file has only events of other namespaces.
func TestEventsDueElsewhere(t *testing.T) {
	const node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {conditions: [{type: Ready, status: 'True'}]}\n---\n"
	const lost = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {conditions: [{type: Ready, status: Unknown}]}\n---\n"
	pod := func(namespace, phase string) string {
		return "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: " + namespace + "}\nspec: {nodeName: n1}\nstatus: {phase: " + phase + "}\n---\n"
	}
	event := func(namespace string) string {
		return "apiVersion: v1\nkind: Event\nmetadata: {name: e, namespace: " + namespace + "}\ninvolvedObject: {kind: Pod, namespace: " + namespace + ", name: p}\n---\n"
	}
	running := pod("a", "Running")
	for name, c := range map[string]struct {
		file string
		gap  bool
	}{
		"it waits":                        {node + running + pod("b", "Pending") + event("a"), true},
		"it runs":                         {node + running + pod("b", "Running") + event("a"), false},
		"its kubelet may be silent":       {lost + running + pod("b", "Pending") + event("a"), false},
		"its namespace has events":        {node + running + pod("b", "Pending") + event("a") + event("b"), false},
		"it waits, and events of several": {node + running + pod("c", "Running") + pod("b", "Pending") + event("a") + event("c"), true},
	} {
		s, _, err := Read("cluster.yaml", strings.NewReader(c.file), ReadOptions{Now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)})
		if err != nil {
			t.Fatal(err)
		}
		if gap := slices.ContainsFunc(s.Gaps, func(g Gap) bool { return g.Kind == Events }); gap != c.gap {
			t.Errorf("%s: %v", name, s.Gaps)
		}
		if !s.CompleteIn(Events, "a") || s.CompleteIn(Events, "b") == c.gap {
			t.Errorf("%s: known of a: %v, of b: %v", name, s.CompleteIn(Events, "a"), s.CompleteIn(Events, "b"))
		}
	}
}
