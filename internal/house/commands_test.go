package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// openCommand matches a kubectl command line with an open end: a verb of fmt, or an end to
// which something is added.
var openCommand = regexp.MustCompile(`(?s)kubectl\s.*%[-+# 0-9.\[\]]*[a-zA-Z]|kubectl\s[^"]*\s$`)

// closedWords are literals that openCommand matches and that take only this module's own
// words.
var closedWords = map[string]string{
	"kubectl volume-doctor explain ": "the code of a check",
	"it is never made unasked: see kubectl volume-doctor explain %s, then give --allow %s": "the kind of a repair",
	"see kubectl volume-doctor explain ":                                                   "the kind of a repair",
	"there is no check %q: \"kubectl volume-doctor explain\" lists them%s":                 "the command ends before it",
	"kubectl volume-doctor %s\nmodel: attach/detach controllers of Kubernetes %s to %s\n":  "the version, no command",
}

// TestCommandsAreBuilt: a command that is shown to be pasted is built from words by
// safetext.Kubectl, which quotes them. None is formatted.
func TestCommandsAreBuilt(t *testing.T) {
	seen := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name := entry.Name(); name == "e2e" || name == "tools" || name == "testdata" || name == "safetext" || strings.HasPrefix(name, ".") && name != "." {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			text, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !openCommand.MatchString(text) {
				return true
			}
			seen[text] = true
			if closedWords[text] == "" {
				t.Errorf("%s: make the command with safetext.Kubectl: %q", files.Position(literal.Pos()), text)
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for text := range closedWords {
		if !seen[text] {
			t.Errorf("nothing says %q any more", text)
		}
	}
}
