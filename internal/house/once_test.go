package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// namesAgain are the files that may spell a name of reconcile/names.go, with the reason.
var namesAgain = map[string]string{
	"snapshot/trim/trim.go":         "stands beneath reconcile, and lists the annotations that it keeps",
	"snapshot/names.go":             "stands beneath reconcile, and knows a volume by its driver and handle",
	"snapshot/bundle_mustgather.go": "stands beneath reconcile; there it is the name of a directory",
}

func TestNamesStandInOnePlace(t *testing.T) {
	names := map[string]bool{}
	ast.Inspect(parsed(t, "reconcile/names.go"), func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			for _, value := range spec.Values {
				if text, ok := literal(value); ok {
					names[text] = true
				}
			}
		}
		return true
	})
	if len(names) < 15 {
		t.Fatalf("only %d names in reconcile/names.go", len(names))
	}
	for _, path := range sources(t) {
		if path == "reconcile/names.go" || namesAgain[path] != "" {
			continue
		}
		ast.Inspect(parsed(t, path), func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				text, _ := literal(e)
				if names[text] || names[strings.TrimSuffix(text, "/")] {
					t.Errorf("%s: %q stands in reconcile/names.go", path, text)
				}
			}
			return true
		})
	}
}

// kindTables are the files that may hold a table of kinds, with the reason.
var kindTables = map[string]string{
	"snapshot/bundle_troubleshoot.go": "the names of the files of another tool",
}

// TestKindsStandInOneTable: code that needs the list of kinds asks snapshot.Resources, and a
// right names a kind by its constant.
func TestKindsStandInOneTable(t *testing.T) {
	kinds, plurals := map[string]bool{}, map[string]bool{}
	ast.Inspect(parsed(t, "snapshot/snapshot.go"), func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok {
			if of, ok := spec.Type.(*ast.Ident); ok && of.Name == "Kind" {
				text, _ := literal(spec.Values[0])
				kinds[spec.Names[0].Name], plurals[text] = true, true
			}
		}
		return true
	})
	if len(kinds) < 11 || !plurals["volumeattachments"] {
		t.Fatalf("the kinds are %v, %v", kinds, plurals)
	}
	isKind := func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.SelectorExpr:
			pkg, ok := e.X.(*ast.Ident)
			return ok && pkg.Name == "snapshot" && kinds[e.Sel.Name]
		case *ast.Ident:
			return kinds[e.Name]
		}
		return false
	}
	seen := map[string]bool{}
	for _, path := range sources(t) {
		ast.Inspect(parsed(t, path), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if _, isMap := n.Type.(*ast.MapType); !isMap {
					return true
				}
				listed := 0
				for _, element := range n.Elts {
					if pair, ok := element.(*ast.KeyValueExpr); ok && (isKind(pair.Key) || isKind(pair.Value)) {
						listed++
					}
				}
				seen[path] = seen[path] || listed > 2
				if listed > 2 && kindTables[path] == "" {
					t.Errorf("%s: a table of %d kinds beside snapshot.Resources", path, listed)
				}
			case *ast.KeyValueExpr:
				key, _ := n.Key.(*ast.Ident)
				if text, _ := literal(n.Value); key != nil && key.Name == "Resource" && plurals[text] {
					t.Errorf("%s: the resource %q has a constant in package snapshot", path, text)
				}
			}
			return true
		})
	}
	for path := range kindTables {
		if !seen[path] {
			t.Errorf("%s has no table of kinds", path)
		}
	}
}

// codesIn are the places where a finding's code may stand outside its check, with the reason.
// In repair it may only stand in tables: lists and maps of codes.
var codesIn = map[string]string{
	"diagnose/checks/":                "the checks, and how their findings relate",
	"explain/words.go":                "which page to read about words that somebody has pasted",
	"explain/components.go":           "which page to read about the sentence of a component",
	"diagnose/finding/groups.go":      "a report that was read from a file has codes and no checks, and a trace knows the remainder by its code",
	"diagnose/check/upstream_bugs.go": "which finding a bug leads to",
	"repair/":                         "which findings a kind of repair mends",
}

func TestCodesStandInTables(t *testing.T) {
	code, seen := regexp.MustCompile(`^VD[0-9]{3}$`), map[string]bool{}
	for _, path := range sources(t) {
		var place string
		for prefix := range codesIn {
			if strings.HasPrefix(path, prefix) {
				place = prefix
			}
		}
		tables := map[ast.Node]bool{}
		ast.Inspect(parsed(t, path), func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				for _, element := range n.Elts {
					tables[element] = true
				}
			case *ast.KeyValueExpr:
				tables[n.Key] = tables[n]
			case ast.Expr:
				if text, _ := literal(n); code.MatchString(text) {
					seen[place] = true
					if place == "" || place == "repair/" && !tables[n] {
						t.Errorf("%s: %s belongs to the check's literal, or into a table of repair", path, text)
					}
				}
			}
			return true
		})
	}
	for prefix := range codesIn {
		if !seen[prefix] {
			t.Errorf("%s has no codes", prefix)
		}
	}
}

// timers are the files with upstream timers. Elsewhere a duration is derived from one of
// these, or its comment says that it is a judgement.
var timers = []string{"diagnose/facts/timing.go", "reconcile/until.go", "reconcile/world.go"}

func TestThresholdsAreDerivedFromTimers(t *testing.T) {
	for _, path := range sources(t) {
		pkg := strings.SplitN(path, "/", 2)[0]
		if slices.Contains(timers, path) || !slices.Contains([]string{"diagnose", "reconcile", "repair"}, pkg) {
			continue
		}
		for _, d := range parsed(t, path).Decls {
			decl, ok := d.(*ast.GenDecl)
			if !ok || decl.Tok != token.CONST && decl.Tok != token.VAR {
				continue
			}
			for _, s := range decl.Specs {
				spec := s.(*ast.ValueSpec)
				said := decl.Doc.Text() + spec.Doc.Text() + spec.Comment.Text()
				if slices.ContainsFunc(spec.Values, bareDuration) && !strings.Contains(strings.ToLower(strings.Join(strings.Fields(said), " ")), "a judgement") {
					t.Errorf("%s: %s is neither derived from an upstream timer nor said to be a judgement", path, spec.Names[0])
				}
			}
		}
	}
}

// bareDuration reports whether the expression consists only of numbers and units.
func bareDuration(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		x, y := bareDuration(e.X), bareDuration(e.Y)
		return x && (y || number(e.Y)) || y && number(e.X)
	case *ast.ParenExpr:
		return bareDuration(e.X)
	case *ast.SelectorExpr:
		pkg, ok := e.X.(*ast.Ident)
		return ok && pkg.Name == "time" && slices.Contains([]string{"Millisecond", "Second", "Minute", "Hour"}, e.Sel.Name)
	}
	return false
}

func number(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	return ok && lit.Kind != token.STRING
}

func literal(e ast.Expr) (string, bool) {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return "", false
	}
	text, err := strconv.Unquote(lit.Value)
	return text, err == nil
}

func parsed(t *testing.T, path string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// sources are the module's Go files without its tests.
func sources(t *testing.T) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && (name == "e2e" || name == "tools" || name == "testdata" || strings.HasPrefix(name, ".") && name != ".") {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			paths = append(paths, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// rawEvents are the files of diagnose and repair that may read the snapshot's events other
// than by View.EventsOf, which leaves out those that are older than the objects that they are
// about.
var rawEvents = map[string]string{
	"diagnose/facts/said_since.go":                                       "is where they are left out",
	"diagnose/facts/unbound.go":                                          "a claim's, with an age of their own",
	"diagnose/trace/kubelet.go":                                          "counts what the recorder has sent, not what it says",
	"diagnose/checks/attached/vd105_uncertain_after_failed_attach.go":    "how far back the list reaches, and that an attach was spoken of at all",
	"diagnose/checks/resolution/vd511_volume_expansion_stuck.go":         "a claim's, with an age of their own",
	"diagnose/checks/resolution/vd517_volume_modification_stuck.go":      "a claim's, and of the class that it names now",
	"diagnose/facts/resizer.go":                                          "when the resizer last spoke, not what it says",
	"diagnose/checks/attached/vd112_autoscaler_deletes_before_detach.go": "a node's, with an age of their own",
	"diagnose/trace/trace.go":                                            "joins them with the kubelet's log before they are left out",
	"diagnose/facts/controller_down.go":                                  "when the controller last spoke, not what it says",
	"diagnose/checks/resolution/vd515_volume_terminating.go":             "a volume's, with an age of their own",
}

func TestOldWordsAreLeftOutInOnePlace(t *testing.T) {
	raw, seen := regexp.MustCompile(`\.Snapshot\.Events(Of|OfPod|About)?\b`), map[string]bool{}
	for _, path := range sources(t) {
		if !strings.HasPrefix(path, "diagnose/") && !strings.HasPrefix(path, "repair/") {
			continue
		}
		source, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if raw.Match(source) {
			seen[path] = true
			if rawEvents[path] == "" {
				t.Errorf("%s reads the snapshot's events: take View.EventsOf, which leaves out those that are older than what they speak of", path)
			}
		}
	}
	for path := range rawEvents {
		if !seen[path] {
			t.Errorf("%s reads no events", path)
		}
	}
}
