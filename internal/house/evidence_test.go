package house

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestEvidence: each proof has a row in docs/evidence/README.md that says how much of it the
// gate runs, and consists of targets that the Makefile has; the nightly proofs are all of
// them.
func TestEvidence(t *testing.T) {
	page, makefile := contents(t, "docs/evidence/README.md"), contents(t, "Makefile")
	_, table, found := strings.Cut(page, "| part | proves |")
	if !found {
		t.Fatal("the page does not say what the gate has")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string]bool{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, " | ")
		for _, part := range regexp.MustCompile("`([a-z0-9-]+)`").FindAllStringSubmatch(cells[0], -1) {
			rows[part[1]] = true
		}
	}
	var parts []string
	for line := range strings.Lines(contents(t, "scripts/prove.tsv")) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			t.Fatalf("prove.tsv: %d fields in %q", len(fields), line)
		}
		parts = append(parts, fields[0])
		if !rows[fields[0]] {
			t.Errorf("the page does not say what the gate has of %s", fields[0])
		}
		delete(rows, fields[0])
		if _, err := os.Stat(fields[1]); err != nil {
			t.Errorf("%s: %v", fields[0], err)
		}
		command, _, _ := strings.Cut(fields[2], " && ")
		for _, target := range strings.Fields(strings.TrimPrefix(command, "make ")) {
			if !strings.Contains(target, "=") && !strings.Contains(makefile, "\n"+target+":") {
				t.Errorf("%s: the Makefile has no target %s", fields[0], target)
			}
		}
	}
	for part := range rows {
		t.Errorf("the page has a proof %s, and prove.tsv has none", part)
	}
	if !strings.Contains(contents(t, ".github/workflows/prove.yaml"), "part: ["+strings.Join(parts, ", ")+"]") {
		t.Errorf("the proofs of a night are not %s", strings.Join(parts, ", "))
	}
	_, gate, _ := strings.Cut(makefile, "\nGATE := ")
	gate, _, _ = strings.Cut(gate, "\n")
	for _, part := range strings.Fields(gate) {
		if !strings.Contains(makefile, "\n"+part+":") {
			t.Errorf("the Makefile has no target %s", part)
		}
	}
}

// TestNamedTests: each test that the Makefile names exists; otherwise nothing would run and
// nobody would notice.
func TestNamedTests(t *testing.T) {
	makefile, tests := contents(t, "Makefile"), testSources(t)
	for _, list := range []string{"CORPUS", "STORIES"} {
		_, names, found := strings.Cut(makefile, "\n"+list+" := ")
		if !found {
			t.Fatalf("the Makefile has no %s", list)
		}
		names, _, _ = strings.Cut(names, "\n")
		for name := range strings.SplitSeq(names, "|") {
			if name = "Test" + strings.TrimPrefix(name, "Test"); !strings.Contains(tests, "\nfunc "+name+"(") {
				t.Errorf("%s: there is no %s", list, name)
			}
		}
	}
}
