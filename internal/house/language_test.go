package house

import (
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// riddles are words that readers whose first language is not English stumble over, each with
// what to write instead.
var riddles = []struct {
	words   *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(?i)\banew\b`), "again, recreate, restart"},
	{regexp.MustCompile(`(?i)\bat\s+once\b`), "immediately, or: at the same time"},
	{regexp.MustCompile(`(?i)\b(tells?|told|says)\s+of\b`), "reports, shows, says about"},
	{regexp.MustCompile(`(?i)\bon\s+its\s+way\b`), "is being detached, is being deleted, under way"},
	{regexp.MustCompile(`(?i)\bceas(e|es|ed|ing)\b`), "no longer, stopped"},
	{regexp.MustCompile(`(?i)\bmend(s|ed|ing)?\b`), "fix"},
	{regexp.MustCompile(`(?i)\bso\s+also\b`), "also"},
	{regexp.MustCompile(`(?i)\bfor\s+want\s+of\b`), "missing, because there is no"},
	{regexp.MustCompile(`(?i)\bsee\s+at\b`), "check at"},
	{regexp.MustCompile(`(?i)\bhangs\s+on\s+(what|whether)\b`), "depends on"},
	{regexp.MustCompile(`(?i)\bfor\s+one\s+node\s+at\s+a\s+time\b`), "ReadWriteOnce"},
	{regexp.MustCompile(`(?i)\bcomplains?\s+of\b`), "reports"},
	{regexp.MustCompile(`(?i)\bharmless\b`), "whom it hits, with their number"},
	{regexp.MustCompile(`(?i)\bis\s+mounted\s+stays?\s+mounted\b|\bare\s+mounted\s+stay\s+mounted\b`), "whose mounts end, with their number"},
}

// pages are the pages that users read: those of explain, and the hand-written ones of docs/.
var pages = []string{
	"README.md", "SECURITY.md", "diagnose/docs/*.md", "diagnose/driverwords/meanings.txt", "repair/docs/*.md", "docs/alerts.md", "docs/ci.md", "docs/codes.md", "docs/fleet.md", "docs/in-cluster.md", "docs/mcp.md", "docs/offline.md", "docs/reading-a-report.md",
	"docs/repairing-safely.md", "docs/evidence/supported-releases.md", "docs/backend.md", "docs/controller-log.md",
}

// TestPlainEnglish checks every message, every help text and every page for plain words. Any
// string in the sources counts as a message: none that only machines read has such words.
func TestPlainEnglish(t *testing.T) {
	strings_, texts := 0, 0
	for _, path := range sources(t) {
		if slices.Contains(forTests, filepath.ToSlash(filepath.Dir(path))) {
			continue
		}
		file := parsed(t, path)
		ast.Inspect(file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := joined(e)
			if !ok {
				return true
			}
			strings_++
			checkWords(t, path, text)
			return false // its parts were read with it
		})
	}
	for _, pattern := range pages {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range paths {
			page, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts++
			checkWords(t, path, string(page))
		}
	}
	if strings_ < 3000 || texts < 100 {
		t.Errorf("only %d strings and %d pages were read", strings_, texts)
	}
}

// joined is the text of a string literal, or of several that are added: a phrase may begin in
// one and end in the next.
func joined(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		return literal(e)
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		x, xok := joined(e.X)
		y, yok := joined(e.Y)
		return x + y, xok && yok
	}
	return "", false
}

func checkWords(t *testing.T, path, text string) {
	t.Helper()
	for _, r := range riddles {
		if at := r.words.FindStringIndex(text); at != nil {
			t.Errorf("%s: %q: write %s", path, strings.Join(strings.Fields(text[max(0, at[0]-40):min(len(text), at[1]+30)]), " "), r.instead)
		}
	}
}

// TestRiddlesAreSeen: the words are found also where a line ends within them.
func TestRiddlesAreSeen(t *testing.T) {
	for _, text := range []string{"made anew", "At\nonce", "it tells of", "on its\n  way off", "has ceased to", "mended", "for want\nof", "See at the provider", "is for one node at a\ntime"} {
		seen := false
		for _, r := range riddles {
			seen = seen || r.words.MatchString(text)
		}
		if !seen {
			t.Errorf("%q is not seen", text)
		}
	}
}
