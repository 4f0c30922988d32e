package house

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/golden"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// TestGeneratedReleasesPage keeps the table of docs/evidence/supported-releases.md in
// agreement with the model, patch release by patch release, with an explanation for
// everything in it.
func TestGeneratedReleasesPage(t *testing.T) {
	const file, begin, end = "docs/evidence/supported-releases.md", "<!-- generated: begin -->\n", "<!-- generated: end -->\n"
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(content), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s: the table has no place", file)
	}
	fresh := before + begin + "\n" + releasesTable() + "\n" + end + after
	golden.Want(t, file, []byte(fresh))
	known := map[reconcile.Behaviour]bool{}
	for _, release := range modelled() {
		for behaviour := range reconcile.BehavioursOf(release) {
			known[behaviour] = true
		}
	}
	for _, change := range reconcile.Ahead() {
		known[change.Behaviour] = true
	}
	for behaviour := range known {
		if !strings.Contains(after, "\n| `"+string(behaviour)+"` | ") {
			t.Errorf("%s does not explain %s", file, behaviour)
		}
	}
	for line := range strings.Lines(after) {
		if name, _, found := strings.Cut(strings.TrimPrefix(line, "| `"), "` | "); found && strings.HasPrefix(line, "| `") && !known[reconcile.Behaviour(name)] {
			t.Errorf("%s explains %s, which the table does not have", file, name)
		}
	}
}

// modelled are the releases of every minor from the oldest that the model knows,
// with more patch releases than any has had.
func modelled() []string {
	var all []string
	for minor := 26; minor <= 37; minor++ {
		for patch := range 40 {
			all = append(all, fmt.Sprintf("1.%d.%d", minor, patch))
		}
	}
	return all
}

// releasesTable has a row for each minor, compared with the minor before it, and
// for each patch release that differs from the patch release before it.
func releasesTable() string {
	var b strings.Builder
	b.WriteString("| from | does | no longer does |\n| --- | --- | --- |\n")
	minor, patch := reconcile.Behaviours{}, reconcile.Behaviours{}
	for _, release := range modelled() {
		now := reconcile.BehavioursOf(release)
		if short, isMinor := strings.CutSuffix(release, ".0"); isMinor {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", short, without(now, minor), without(minor, now))
			minor = now
		} else if gained, lost := without(now, patch), without(patch, now); gained+lost != "" {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", release, gained, lost)
		}
		patch = now
	}
	return b.String()
}

func without(a, b reconcile.Behaviours) string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(a)) {
		if !b.Has(name) {
			names = append(names, "`"+string(name)+"`")
		}
	}
	return strings.Join(names, ", ")
}
