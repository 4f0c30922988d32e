// Command licences reads the licence of everything that is compiled into the commands of a
// module, on every platform that they are released for. It prints the texts, which a release
// must carry, and fails on a licence that is not allowed, not recognized or missing.
//
//	go run ./licences [FOLDER of a command's package ...]
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// allowed are the licences, by their SPDX names, that a program under the Apache
// licence may be linked with, at the price of their notices.
var allowed = []string{"Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MPL-2.0"}

// covered is how much of a file must match the licence, in per cent of its words; pkg.go.dev
// requires as much.
const covered = 75

// platforms are the platforms of .goreleaser.yaml: the linked packages differ between them.
var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}

// module is a module with its folders that are compiled in.
type module struct {
	path, version, root string
	folders             []string
}

// notice is a file that a release must carry; names are the licences in it.
type notice struct {
	file  string
	names []string
	text  []byte
}

func main() {
	flag.Parse()
	folders := flag.Args()
	if len(folders) == 0 {
		folders = []string{"."}
	}
	if err := run(folders, os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "licences: %v\n", err)
		os.Exit(1)
	}
}

// run writes the notices of everything in the commands of the folders. Its error names every
// licence that prevents a release.
func run(folders []string, out io.Writer) error {
	modules, err := linked(folders)
	if err != nil {
		return err
	}
	var refused []error
	for _, m := range modules {
		notices, err := read(m)
		refused = append(refused, err)
		for _, n := range notices {
			fmt.Fprintf(out, "==== %s %s: %s (%s)\n\n%s\n\n", m.path, m.version, n.file, strings.Join(n.names, ", "), bytes.TrimSpace(n.text))
		}
	}
	return errors.Join(refused...)
}

// build is one command for one platform.
type build struct{ folder, platform string }

func everywhere(commands []string) (all []build) {
	for _, folder := range commands {
		for _, platform := range platforms {
			all = append(all, build{folder, platform})
		}
	}
	return all
}

// linked lists the modules in the commands of the folders, over all platforms, and Go's own
// library.
func linked(commands []string) ([]module, error) {
	byPath := map[string]module{}
	for _, built := range everywhere(commands) {
		system, machine, _ := strings.Cut(built.platform, "/")
		list := exec.Command("go", "list", "-deps", "-f",
			"{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}", ".")
		list.Dir = built.folder
		list.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+machine, "CGO_ENABLED=0")
		var stderr bytes.Buffer
		list.Stderr = &stderr
		text, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("list what is linked for %s: %w: %s", built.platform, err, stderr.Bytes())
		}
		for line := range strings.Lines(string(text)) {
			field := strings.Split(strings.TrimSpace(line), "\t")
			if len(field) != 4 {
				continue // part of Go itself, or of the command's own module
			}
			m := byPath[field[0]]
			m.path, m.version, m.root = field[0], field[1], field[2]
			m.folders = append(m.folders, field[3])
			byPath[m.path] = m
		}
	}
	if len(byPath) == 0 {
		return nil, fmt.Errorf("%v are made of no module: that cannot be", commands)
	}
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("find Go's own licence: %w", err)
	}
	all := []module{{path: "the Go library", version: runtime.Version(), root: strings.TrimSpace(string(goroot))}}
	for _, path := range slices.Sorted(maps.Keys(byPath)) {
		all = append(all, byPath[path])
	}
	return all, nil
}

// read collects a module's notices: those at its root, and those between the root
// and each folder that is compiled in, where forked code has its own.
func read(m module) ([]notice, error) {
	folders := []string{m.root}
	for _, folder := range m.folders {
		for folder != m.root && strings.HasPrefix(folder, m.root) {
			folders = append(folders, folder)
			folder = filepath.Dir(folder)
		}
	}
	slices.Sort(folders)
	var notices []notice
	var refused []error
	for _, folder := range slices.Compact(folders) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.path, err)
		}
		found := false
		for _, entry := range entries {
			name := strings.ToUpper(entry.Name())
			isLicence := strings.HasPrefix(name, "LICENSE") || strings.HasPrefix(name, "LICENCE") || strings.HasPrefix(name, "COPYING")
			if entry.IsDir() || strings.HasSuffix(name, ".GO") || !isLicence && !strings.HasPrefix(name, "NOTICE") {
				continue
			}
			file := filepath.Join(folder, entry.Name())
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.path, err)
			}
			inside, err := filepath.Rel(m.root, file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.path, err)
			}
			n := notice{file: filepath.ToSlash(inside), text: text, names: []string{"notice"}}
			if isLicence {
				found = true
				if n.names, err = names(text); err != nil {
					refused = append(refused, fmt.Errorf("%s %s: %s: %w", m.path, m.version, n.file, err))
				}
			}
			notices = append(notices, n)
		}
		if folder == m.root && !found {
			refused = append(refused, fmt.Errorf("%s %s: no licence in its root", m.path, m.version))
		}
	}
	return notices, errors.Join(refused...)
}

// names recognizes the licences in a text. It fails where one of them is not allowed, or
// where much of the text is something else.
func names(text []byte) ([]string, error) {
	coverage := licensecheck.Scan(text)
	var names []string
	for _, match := range coverage.Match {
		if !match.IsURL && !slices.Contains(names, match.ID) {
			names = append(names, match.ID)
		}
	}
	if coverage.Percent < covered || len(names) == 0 {
		return names, fmt.Errorf("not recognized: %.0f%% of it is %v", coverage.Percent, names)
	}
	for _, name := range names {
		if !slices.Contains(allowed, name) {
			return names, fmt.Errorf("%s is not allowed", name)
		}
	}
	return names, nil
}
