package apply

import (
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// TestPagesNameTheGuards: the page of a repair names each guard that may refuse it.
func TestPagesNameTheGuards(t *testing.T) {
	for _, world := range worlds {
		r := world(t).only()
		page := repair.Topic{Name: string(r.Kind)}.Doc()
		for _, guard := range r.Guards {
			if !strings.Contains(page, "`"+guard.Name+"`") {
				t.Errorf("the page of %s does not name guard %s", r.Kind, guard.Name)
			}
		}
		asks := slices.ContainsFunc(r.Guards, func(g repair.Guard) bool { return g.Name == repair.GuardAllowed || g.Name == repair.GuardFenced })
		if asks && !strings.Contains(page, "--allow") && !strings.Contains(page, "--fenced") {
			t.Errorf("the page of %s does not say whose word it takes", r.Kind)
		}
	}
}

// TestEveryKindHasAWorld: a kind without a world would not be tested.
func TestEveryKindHasAWorld(t *testing.T) {
	var kinds []repair.Kind
	for _, world := range worlds {
		kinds = append(kinds, world(t).only().Kind)
	}
	for _, kind := range repair.Kinds() {
		if !slices.Contains(kinds, kind) {
			t.Errorf("kind %s has no world", kind)
		}
	}
}
