package house

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestInvariantsPage: each test that docs/invariants.md names exists in the named place.
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
	if len(numbers) != 13 || len(named) < 10 {
		t.Fatalf("%d invariants and %d tests", len(numbers), len(named))
	}
	for _, n := range named {
		source, err := os.ReadFile(n[1])
		if err != nil || !strings.Contains(string(source), "func "+n[2]+"(t *testing.T) {") {
			t.Errorf("%s has no %s: %v", n[1], n[2], err)
		}
	}
}

// TestPromisesHaveTests: each section and each step of SECURITY.md and
// docs/repairing-safely.md that promises something names a test, and each named test exists
// in the named place.
func TestPromisesHaveTests(t *testing.T) {
	for page, promisesNothing := range map[string][]string{
		"SECURITY.md": {"Report a vulnerability", "What is released"},
		// tables and advice that have tests of their own
		"docs/repairing-safely.md": {"The repairs, the lowest risk first", "What is never done"},
	} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		test := regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`")
		for _, section := range regexp.MustCompile(`(?m)^##+ `).Split(string(text), -1) {
			title, body, _ := strings.Cut(section, "\n")
			parts := []string{body}
			if strings.HasPrefix(title, "# ") { // the steps of a repair
				parts = regexp.MustCompile(`(?m)^[0-9]+\. `).Split(body, -1)[1:]
			}
			for _, part := range parts {
				if !slices.Contains(promisesNothing, title) && !test.MatchString(part) {
					t.Errorf("%s: no test is named by %q: %.60q", page, title, part)
				}
			}
		}
		// Tests are listed before the file, or the folder, that has them all.
		named := 0
		for _, list := range regexp.MustCompile("((?:`(?:Test|Fuzz)[A-Za-z0-9]+`(?:,|, and| and)?\\s+)+)in\\s+`([a-z0-9/_]+(?:_test\\.go)?)`").FindAllStringSubmatch(string(text), -1) {
			files := []string{list[2]}
			if !strings.HasSuffix(list[2], ".go") {
				files, _ = filepath.Glob(list[2] + "/*_test.go")
			}
			var source strings.Builder
			for _, file := range files {
				data, err := os.ReadFile(file)
				if err != nil {
					t.Errorf("%s: %v", page, err)
				}
				source.Write(data)
			}
			for _, name := range test.FindAllStringSubmatch(list[1], -1) {
				named++
				if !strings.Contains(source.String(), "\nfunc "+name[1]+"(") {
					t.Errorf("%s: %s has no %s", page, list[2], name[1])
				}
			}
		}
		if all := len(test.FindAllString(string(text), -1)); named != all || all < 15 {
			t.Errorf("%s names %d tests, and says of %d where they are", page, all, named)
		}
	}
}

// TestSecurityReviewPage: each test that docs/evidence/attacks.md names exists.
func TestSecurityReviewPage(t *testing.T) {
	page, err := os.ReadFile("docs/evidence/attacks.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := testSources(t)
	named := regexp.MustCompile("`(Test|Fuzz|Benchmark)([A-Za-z0-9]+)").FindAllStringSubmatch(string(page), -1)
	if len(named) < 80 {
		t.Fatalf("only %d tests are named", len(named))
	}
	for _, n := range named {
		if !strings.Contains(tests, "\nfunc "+n[1]+n[2]+"(") {
			t.Errorf("there is no %s%s", n[1], n[2])
		}
	}
}

// testSources is the text of all test files.
func testSources(t *testing.T) string {
	t.Helper()
	var tests strings.Builder
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
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
	return tests.String()
}
