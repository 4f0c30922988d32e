package main

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// find asks go test for the targets of every package of the module.
func find(ctx context.Context, dir string, wanted *regexp.Regexp) ([]*target, error) {
	module, err := output(ctx, dir, "go", "list", "-m")
	if err != nil {
		return nil, err
	}
	listed, err := output(ctx, dir, "go", "test", "-list", "^Fuzz", "./...")
	if err != nil {
		return nil, err
	}
	var targets []*target
	var names []string
	for line := range strings.Lines(listed) {
		words := strings.Fields(line)
		switch {
		case len(words) == 1 && strings.HasPrefix(words[0], "Fuzz"):
			names = append(names, words[0])
		case len(words) > 1 && words[0] == "ok": // the package stands after its targets
			pkg := strings.TrimPrefix(strings.TrimPrefix(words[1], strings.TrimSpace(module)), "/")
			about, err := comments(filepath.Join(dir, pkg))
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				if t := (&target{pkg: pkg, name: name, about: about[name], state: waiting}); wanted.MatchString(t.String()) {
					targets = append(targets, t)
				}
			}
			names = nil
		}
	}
	if len(targets) == 0 {
		return nil, errors.New("no such target")
	}
	return targets, nil
}

// output is the standard output of a command.
func output(ctx context.Context, dir, name string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Dir, c.Stderr = dir, os.Stderr
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(text), nil
}

// comments are the comments of the targets in a folder, without their names.
func comments(dir string) (map[string]string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil {
		return nil, err
	}
	about := map[string]string{}
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Fuzz") {
				text := strings.Join(strings.Fields(f.Doc.Text()), " ")
				about[f.Name.Name] = strings.TrimSpace(strings.TrimLeft(strings.TrimPrefix(text, f.Name.Name), ": "))
			}
		}
	}
	return about, nil
}
