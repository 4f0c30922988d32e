package repair

import (
	"os"
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
