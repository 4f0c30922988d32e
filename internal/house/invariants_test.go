package house

import (
	"io/fs"
	"os"
	"path/filepath"
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

// TestSecurityReviewPage holds docs/security-review.md to its word: each test that
// it names is there.
func TestSecurityReviewPage(t *testing.T) {
	page, err := os.ReadFile("docs/security-review.md")
	if err != nil {
		t.Fatal(err)
	}
	var tests strings.Builder
	err = filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		tests.Write(source)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`(Test|Fuzz|Benchmark)([A-Za-z0-9]+)").FindAllStringSubmatch(string(page), -1)
	if len(named) < 80 {
		t.Fatalf("only %d tests are named", len(named))
	}
	for _, n := range named {
		if !strings.Contains(tests.String(), "\nfunc "+n[1]+n[2]+"(") {
			t.Errorf("there is no %s%s", n[1], n[2])
		}
	}
}
