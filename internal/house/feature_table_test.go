package house

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestFeatureTable: each of our cells names an existing test, and each of theirs is a file in
// the commit that was read, or "not found".
func TestFeatureTable(t *testing.T) {
	page, err := os.ReadFile("docs/evidence/feature-table.md")
	if err != nil {
		t.Fatal(err)
	}
	ours := regexp.MustCompile(`^\[[^]]+\]\(\.\./\.\./([\w/]+_test\.go) "(Test\w+)"\)$`)
	theirs := regexp.MustCompile(`^(not found|\[[^]]+\]\(https://github\.com/[\w-]+/[\w-]+/blob/[0-9a-f]{40}/[\w./-]+\))$`)
	features := 0
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "| "), " |"), " | ")
		if len(cells) != 8 || strings.HasPrefix(cells[0], "**") || strings.HasPrefix(line, "|  | volume-doctor") || strings.HasPrefix(line, "| ---") {
			continue
		}
		features++
		feature := strings.TrimSpace(cells[0])
		if link := ours.FindStringSubmatch(strings.TrimSpace(cells[1])); link == nil {
			t.Errorf("%s: no test shows that we have it: %s", feature, cells[1])
		} else if code, err := os.ReadFile(link[1]); err != nil || !strings.Contains(string(code), "\nfunc "+link[2]+"(t *testing.T)") {
			t.Errorf("%s: %s has no %s", feature, link[1], link[2])
		}
		for _, cell := range cells[2:] {
			if !theirs.MatchString(strings.TrimSpace(cell)) {
				t.Errorf("%s: nothing shows %q", feature, cell)
			}
		}
	}
	if features < 20 {
		t.Errorf("%d features were read", features)
	}
}
