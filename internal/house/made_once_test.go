package house

import (
	"go/ast"
	"path/filepath"
	"slices"
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

// TestNobodyChangesAReport: where reports are shown, served or acted on, nothing assigns to a field
// of a report, be it a parameter or a field of something else.
func TestNobodyChangesAReport(t *testing.T) {
	looked := 0
	for _, path := range sources(t) {
		if !slices.Contains([]string{"cmd", "explain", "mcp", "output", "repair/apply", "standing"}, filepath.ToSlash(filepath.Dir(path))) {
			continue
		}
		reports := map[string]bool{"report": true, "Report": true}
		file := parsed(t, path)
		ast.Inspect(file, func(n ast.Node) bool {
			if f, ok := n.(*ast.Field); ok && len(f.Names) == 1 && isReport(f.Type) {
				reports[f.Names[0].Name] = true
			}
			return true
		})
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.AssignStmt); ok {
				for _, to := range s.Lhs {
					looked++
					if changes(to, reports) {
						t.Errorf("%s assigns to a field of a report", path)
					}
				}
			}
			return true
		})
	}
	if looked < 1000 {
		t.Errorf("only %d assignments were looked at", looked)
	}
}

// isReport reports whether the type is *finding.Report.
func isReport(e ast.Expr) bool {
	pointer, ok := e.(*ast.StarExpr)
	if !ok {
		return false
	}
	name, ok := pointer.X.(*ast.SelectorExpr)
	return ok && name.Sel.Name == "Report"
}

// changes reports whether the place is a field of one of the reports.
func changes(place ast.Expr, reports map[string]bool) bool {
	switch e := place.(type) {
	case *ast.IndexExpr:
		return changes(e.X, reports)
	case *ast.SelectorExpr:
		switch of := e.X.(type) {
		case *ast.Ident:
			return reports[of.Name]
		case *ast.SelectorExpr:
			return reports[of.Sel.Name] || changes(of, reports)
		default:
			return changes(of, reports)
		}
	}
	return false
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
