package diagnose_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/golden"
)

const (
	reachSection     = "## Whom it hits"
	dangerousSection = "## Dangerous advice"
)

// adviceOf is the advice of a page: its beginning, the repair and its risk.
func adviceOf(page string) string {
	var advice []string
	_, page, _ = strings.Cut(page, "\n") // the title has the name of the check
	for i, section := range strings.Split(page, "\n## ") {
		if i == 0 || strings.HasPrefix(section, "Repair\n") || strings.HasPrefix(section, "Risk\n") {
			advice = append(advice, section)
		}
	}
	return strings.Join(advice, "\n\n")
}

// TestGeneratedReach: a page does not know the cluster. Where it advises to delete or restart
// something, it says which pods that can hit and how to list them.
func TestGeneratedReach(t *testing.T) {
	pages, err := filepath.Glob("docs/VD*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("there are no pages", err)
	}
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		kinds, strange := step.In(adviceOf(string(text)))
		for _, words := range strange {
			t.Errorf("%s advises %q: of what?", path, words)
		}
		page, rest, ok := strings.Cut(string(text), dangerousSection)
		if !ok {
			t.Errorf("%s has no %s", path, dangerousSection)
			continue
		}
		page, _, _ = strings.Cut(page, reachSection)
		if len(kinds) > 0 {
			page += reachOf(kinds)
		}
		golden.Want(t, path, []byte(page+dangerousSection+rest))
	}
}

// TestGeneratedReachOfTopics: the same for the pages about harmful advice, and what they advise
// instead.
func TestGeneratedReachOfTopics(t *testing.T) {
	pages, err := filepath.Glob("../repair/docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("there are no pages", err)
	}
	for _, path := range pages {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page, _, _ := strings.Cut(string(text), "\n"+reachSection)
		_, instead, _ := strings.Cut(page, "\n## What to do instead\n")
		kinds, strange := step.In(instead)
		for _, words := range strange {
			t.Errorf("%s advises %q: of what?", path, words)
		}
		if len(kinds) > 0 {
			page += "\n" + strings.TrimSuffix(reachOf(kinds), "\n")
		}
		golden.Want(t, path, []byte(page))
	}
}

// reachOf is the section about steps of the kinds.
func reachOf(kinds []step.Kind) string {
	section := reachSection + "\n\n"
	for _, kind := range kinds {
		section += wrapped(step.Of(kind).Whom+":") + "\n\n    " + step.Of(kind).Count + "\n\n"
	}
	return section
}

// wrapped breaks the text into the lines of a page.
func wrapped(text string) string {
	lines, length := "", 0
	for _, word := range strings.Fields(text) {
		switch {
		case length == 0:
		case length+1+len(word) > 80:
			lines, length = lines+"\n", 0
		default:
			lines, length = lines+" ", length+1
		}
		lines, length = lines+word, length+len(word)
	}
	return lines
}
