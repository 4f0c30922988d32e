package house

import (
	"go/ast"
	"path/filepath"
	"strings"
	"testing"
)

// TestMadeOnce: a report, a plan and a snapshot are values. No exported method assigns to its
// receiver, so that all holders see the same.
func TestMadeOnce(t *testing.T) {
	looked := 0
	for folder, name := range map[string]string{"diagnose/finding": "Report", "reconcile": "Plan", "snapshot": "Snapshot"} {
		files, err := filepath.Glob(folder + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if strings.HasSuffix(path, "_test.go") {
				continue
			}
			for _, d := range parsed(t, path).Decls {
				method, ok := d.(*ast.FuncDecl)
				if !ok || method.Recv == nil || !method.Name.IsExported() || len(method.Recv.List[0].Names) == 0 {
					continue
				}
				pointer, ok := method.Recv.List[0].Type.(*ast.StarExpr)
				if !ok || pointer.X.(*ast.Ident).Name != name {
					continue
				}
				looked++
				ast.Inspect(method.Body, func(n ast.Node) bool {
					if s, ok := n.(*ast.AssignStmt); ok {
						for _, to := range s.Lhs {
							if _, variable := to.(*ast.Ident); !variable && rootOf(to) == method.Recv.List[0].Names[0].Name {
								t.Errorf("%s: %s.%s assigns to its receiver", path, name, method.Name)
							}
						}
					}
					return true
				})
			}
		}
	}
	if looked < 20 {
		t.Errorf("only %d methods were looked at", looked)
	}
}

// rootOf is the variable that the expression's place belongs to.
func rootOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return rootOf(e.X)
	case *ast.IndexExpr:
		return rootOf(e.X)
	case *ast.StarExpr:
		return rootOf(e.X)
	}
	return ""
}
