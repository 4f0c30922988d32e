package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestMutantsApply keeps the list from rotting: each edit finds its place and
// leaves a file that parses.
func TestMutantsApply(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, m := range slices.Concat(Mutants(), StoryMutants(), KubeletMutants()) {
		if names[m.Name] {
			t.Errorf("%s: twice in the list", m.Name)
		}
		names[m.Name] = true
		if m.Branch == "" || m.Old == m.New {
			t.Errorf("%s: it has no branch, or changes nothing", m.Name)
		}
		source, err := m.Apply(root)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), m.File, source, parser.SkipObjectResolution); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
	if len(names) < 40 {
		t.Errorf("%d mutants only", len(names))
	}
}

// TestPageIsWhole finds each mutant in docs/mutation.md; make mutation writes it.
func TestPageIsWhole(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "mutation.md"))
	if err != nil {
		t.Fatal(err)
	}
	parts := cutPage(string(page))
	if joinPage(parts) != string(page) {
		t.Error("the page does not consist of its parts")
	}
	for i, mutants := range [][]Mutant{Mutants(), StoryMutants(), KubeletMutants()} {
		part := parts[i]
		rows := 0
		for _, line := range strings.Split(part, "\n") {
			if strings.Contains(line, ".go | ") {
				rows++
			}
		}
		for _, m := range mutants {
			if !strings.Contains(part, fmt.Sprintf("\n| %s | %s | ", m.Name, m.File)) {
				t.Errorf("%s is not in docs/mutation.md", m.Name)
			}
		}
		if rows != len(mutants) {
			t.Errorf("docs/mutation.md has %d mutants, the list %d", rows, len(mutants))
		}
	}
}
