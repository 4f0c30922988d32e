package main

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestInvariantsPage holds docs/invariants.md to its word: each test that it
// names is where it says.
func TestInvariantsPage(t *testing.T) {
	page, err := os.ReadFile("docs/invariants.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9/_]+_test\\.go)`,? `(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(string(page), -1)
	numbers := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| (\d+) \|`).FindAllStringSubmatch(string(page), -1) {
		numbers[row[1]] = true
	}
	if len(numbers) != 11 || len(named) < 10 {
		t.Fatalf("%d invariants and %d tests", len(numbers), len(named))
	}
	for _, n := range named {
		source, err := os.ReadFile(n[1])
		if err != nil || !strings.Contains(string(source), "func "+n[2]+"(t *testing.T) {") {
			t.Errorf("%s has no %s: %v", n[1], n[2], err)
		}
	}
}
