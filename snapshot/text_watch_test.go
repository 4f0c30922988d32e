package snapshot

import (
	"slices"
	"strings"
	"testing"
)

// TestWatch: the events of a watch are read as what is there in the end; one that does not begin with the
// objects that were there leaves a gap.
func TestWatch(t *testing.T) {
	event := func(kind, object string) string { return `{"type": "` + kind + `", "object": ` + object + "}\n" }
	begun := event("ADDED", podOf("shop", "a", "5")) + event("ADDED", podOf("shop", "b", "6"))
	again := strings.Replace(podOf("shop", "a", "12"), "u-a", "u-a2", 1)
	for _, tt := range []struct {
		name, text, pods string
		gap              bool
	}{
		{"as it began", begun, "a b", false},
		{"one was deleted", begun + event("DELETED", podOf("shop", "a", "11")), "b", false},
		{"one was made again", begun + event("DELETED", podOf("shop", "a", "11")) + event("ADDED", again), "a b", false},
		{"one changed", begun + event("MODIFIED", podOf("shop", "b", "9")) + event("BOOKMARK", `{"apiVersion": "v1", "kind": "Pod", "metadata": {"resourceVersion": "13"}}`), "a b", false},
		{"only changes", event("MODIFIED", podOf("shop", "b", "9")), "b", true},
		{"only a deletion", event("ADDED", podOf("shop", "b", "9")) + event("DELETED", podOf("shop", "a", "11")), "b", true},
	} {
		s, _, err := Read("f", strings.NewReader(tt.text), ReadOptions{Now: noon})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		gap := slices.ContainsFunc(gapLines(s), func(g string) bool { return strings.HasPrefix(g, "pods: Truncated (the watch does not begin") })
		if podNames(s) != tt.pods || gap != tt.gap {
			t.Errorf("%s: pods %s, gaps %q", tt.name, podNames(s), gapLines(s))
		}
	}
}
