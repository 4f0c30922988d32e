package repair

import (
	"os"
	"slices"
	"strings"
	"testing"
)

func TestTopicsAndPagesMatch(t *testing.T) {
	files, err := os.ReadDir("docs")
	if err != nil {
		t.Fatal(err)
	}
	topics := Topics()
	if len(files) != len(topics) {
		t.Errorf("%d pages for %d topics", len(files), len(topics))
	}
	for _, topic := range topics {
		page := topic.Doc()
		headings := []string{"## What it writes", "## When it is proposed", "## Risk"}
		if topic.Never {
			headings = []string{"Never done by this tool.", "## Where it is advised", "## What goes wrong", "## What to do instead"}
		} else if topic.Name != string(Wait) {
			headings = append(headings, "## Guards", "## Undo")
		}
		if !strings.HasPrefix(page, "# "+topic.Name+"\n\n") || topic.Title() == "" {
			t.Errorf("%s: no title", topic.Name)
		}
		for _, heading := range headings {
			if !strings.Contains(page, "\n"+heading+"\n") {
				t.Errorf("%s: no %q", topic.Name, heading)
			}
		}
	}
}

// TestPagesNameTheGuards: whoever is refused by a guard finds it on the page of
// the repair.
func TestPagesNameTheGuards(t *testing.T) {
	for _, world := range worlds {
		r := world(t).only()
		page := Topic{Name: string(r.Kind)}.Doc()
		for _, guard := range r.Guards {
			if !strings.Contains(page, "`"+guard.Name+"`") {
				t.Errorf("the page of %s does not name guard %s", r.Kind, guard.Name)
			}
		}
		if r.asksConsent() && !strings.Contains(page, "--allow") && !strings.Contains(page, "--fenced") {
			t.Errorf("the page of %s does not say whose word it takes", r.Kind)
		}
	}
}

// TestEveryKindHasAWorld: what has no world is not tested.
func TestEveryKindHasAWorld(t *testing.T) {
	var kinds []Kind
	for _, world := range worlds {
		kinds = append(kinds, world(t).only().Kind)
	}
	for _, kind := range Kinds() {
		if !slices.Contains(kinds, kind) {
			t.Errorf("kind %s has no world", kind)
		}
	}
}
