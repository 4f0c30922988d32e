package house

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOtherSystems: all packages and their tests pass the type checker for each system of a
// release. Nothing is compiled, so this takes a twentieth of the time of go vet there (make
// vet-all, each night).
func TestOtherSystems(t *testing.T) {
	for _, system := range []string{"windows", "darwin"} {
		t.Run(system, func(t *testing.T) {
			t.Parallel()
			if own := rightFor(t, system); own < 50 {
				t.Errorf("%d packages of the module were looked at", own)
			}
		})
	}
}

// rightFor type-checks everything that the module's packages and tests need on the system; in
// other modules without function bodies. It returns how many packages are the module's own.
func rightFor(t *testing.T, system string) (own int) {
	list := exec.Command("go", "list", "-deps", "-test", "-json=Dir,ImportPath,ImportMap,GoFiles,Module", "./...")
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system)
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := list.Start(); err != nil {
		t.Fatal(err)
	}
	known, files := map[string]*types.Package{"unsafe": types.Unsafe}, token.NewFileSet()
	for decoder := json.NewDecoder(out); ; { // imported packages come first
		var p struct {
			Dir, ImportPath string
			ImportMap       map[string]string
			GoFiles         []string
			Module          *struct{ Main bool }
		}
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if p.ImportPath == "unsafe" || strings.HasSuffix(p.ImportPath, ".test") {
			continue
		}
		ours := p.Module != nil && p.Module.Main
		config := types.Config{
			IgnoreFuncBodies: !ours,
			FakeImportC:      true,
			Sizes:            types.SizesFor("gc", "amd64"),
			Importer: importer(func(path string) (*types.Package, error) {
				if to, mapped := p.ImportMap[path]; mapped {
					path = to
				}
				if known[path] == nil {
					return nil, errors.New(path + " does not come before what imports it")
				}
				return known[path], nil
			}),
			Error: func(err error) {
				if ours {
					t.Errorf("on %s: %v", system, err)
				}
			},
		}
		var parsed []*ast.File
		for _, name := range p.GoFiles {
			if !filepath.IsAbs(name) {
				name = filepath.Join(p.Dir, name)
			}
			file, err := parser.ParseFile(files, name, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, file)
		}
		if ours {
			own++
		}
		known[p.ImportPath], _ = config.Check(p.ImportPath, files, parsed, nil) // Error collects it
	}
	if err := list.Wait(); err != nil {
		t.Fatal(err)
	}
	return own
}

type importer func(path string) (*types.Package, error)

func (i importer) Import(path string) (*types.Package, error) { return i(path) }
