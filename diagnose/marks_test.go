package diagnose_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
)

// TestAdviceNamesActions: no advice of a check, a message's meaning or a guard ends or restarts
// something in its own words. It names the action by a mark, from which one place makes the
// sentence, the command and the pods that it hits. What it detaches or unmounts, too, has a mark.
func TestAdviceNamesActions(t *testing.T) {
	named := map[step.Kind]int{}
	look := func(where, text string) {
		for _, m := range step.Marks(text) {
			named[m.Kind]++
		}
		unmarked := step.Expand(text, func(step.Mark) string { return "" })
		if kinds, strange := step.In(unmarked); len(kinds)+len(strange) > 0 {
			t.Errorf("%s ends or restarts something in its own words (%v %q): %q", where, kinds, strange, text)
		}
		for _, sentence := range sentenceEnds.Split(text, -1) {
			if m := detaches.FindString(sentence); m != "" && !strings.Contains(sentence, step.Final.Of()) && step.Kinds(sentence) == nil {
				t.Errorf("%s does not say whether %q can be undone: %q", where, m, text)
			}
		}
		if plain := step.Plain(text); strings.ContainsAny(plain, "{}") { // it panics at an unknown kind
			t.Errorf("%s: %q is no mark", where, plain)
		}
	}
	fields := []string{"Advice", "ByHand", "SafeOnce"}
	for _, root := range []string{".", "../repair"} {
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			literals := func(n ast.Node) {
				ast.Inspect(n, func(n ast.Node) bool {
					if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
						text, _ := strconv.Unquote(l.Value)
						look(path, text)
					}
					return true
				})
			}
			ast.Inspect(file, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.KeyValueExpr:
					if key, ok := n.Key.(*ast.Ident); ok && slices.Contains(fields, key.Name) {
						literals(n.Value)
					}
				case *ast.AssignStmt:
					for i, left := range n.Lhs {
						if field, ok := left.(*ast.SelectorExpr); ok && slices.Contains(fields, field.Sel.Name) && len(n.Rhs) == len(n.Lhs) {
							literals(n.Rhs[i])
						}
					}
				case *ast.CompositeLit: // the table of guards
					if name, ok := n.Type.(*ast.Ident); ok && name.Name == "Guard" && len(n.Elts) == 4 {
						literals(n.Elts[3])
					}
				case *ast.FuncDecl: // functions that make advice
					if strings.Contains(n.Name.Name, "dvice") || n.Name.Name == "whereToLook" {
						literals(n.Body)
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, e := range driverwords.Entries() {
		look("the words "+e.Words, e.Helps)
		for _, action := range step.Actions(e.Helps) {
			if !slices.ContainsFunc(step.Marks(action), func(m step.Mark) bool { return m.Kind != step.Do && m.Kind != step.If }) {
				t.Errorf("the words %q do not say what this changes: %q", e.Words, action)
			}
		}
	}
	for _, r := range step.Reaches() {
		if named[r.Kind] == 0 && r.Kind != step.DeleteNode {
			t.Errorf("nobody names %s: %v", r.Kind, named)
		}
	}
}

var (
	sentenceEnds = regexp.MustCompile(`[.;] `)
	// detaches finds the imperatives of what cannot be undone and has no kind of its own.
	detaches = regexp.MustCompile(`(?i)(?:^|, |\b(?:and|then|only) )(?:detach|unmount|unmap|delete|end|stop|run fsck|take off) `)
)
