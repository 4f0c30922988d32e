package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
)

const reconcilePackage = "github.com/volume-doctor/kubectl-volume-doctor/reconcile"

// Coverage is what comparisons with all releases run of package reconcile.
type Coverage struct {
	Rows     int
	Clusters int
	// All and Run count statements by file.
	All, Run map[string]int
	Missed   []Missed
}

// Missed is a block that no comparison runs.
type Missed struct {
	File       string
	Line       int
	Statements int
	// Function holds the block; Text is its first line.
	Function, Text string
}

// missedReasons says why the blocks of a function, or a block with a certain
// text, cannot be run by a comparison.
var missedReasons = []struct{ function, text, reason string }{
	{"TooOld", "", "Says that a release is older than the table; no such controller is built."},
	{"Error", "", "The text of a skip: the comparison reads its reason."},
	{"translateInline", "errors.New", "The controller itself panics on such a pod: see storage-policy-panics."},
	{"VerifySync", "", "It is about minutes of a running controller; TestSyncPeriod in e2e/histories compares them."},
	{"Ahead", "", "Names what no release has; the comparison is of releases."},
	{"NewWorld", "behaviours[name]", "Turns on what no release has: TestAhead in e2e/conformance holds that against a patched controller."},
	{"liveNode", "LiveNodes[name]", "It is about a controller that has not heard of everything: TestAhead in e2e/conformance compares one."},
	{"inline", "TranslationFailed", "An inline volume whose translation fails."},
}

func (m Missed) reason() string {
	for _, r := range missedReasons {
		if m.Function == r.function && strings.Contains(m.Text, r.text) {
			return r.reason
		}
	}
	switch m.File {
	case "until.go":
		return afterwards
	case "gates.go":
		return "It is about feature gates that the release does not have by itself: TestGates in e2e/conformance compares controllers with them."
	}
	return ""
}

// coverage compares clusters with every release, the model as it is: this is
// also the check that the mutants alone differ.
func (r *runner) coverage(ctx context.Context) (*Coverage, error) {
	binary, data := filepath.Join(r.temp, "covered"), filepath.Join(r.temp, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, err
	}
	if out, err := r.command(ctx, "e2e", "build", "-cover", "-covermode=set", "-coverpkg="+reconcilePackage+",./mutation/hunt", "-o", binary, "./mutation/hunt"); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	c := &Coverage{Clusters: 150, All: map[string]int{}, Run: map[string]int{}}
	result, err := r.ask(ctx, binary, c.Clusters, conformance.Releases, "GOCOVERDIR="+data)
	if err != nil {
		return nil, err
	}
	if d := result.Difference; d != nil {
		return nil, fmt.Errorf("the model without a mutant differs: %+v", *d)
	}
	c.Rows = result.Rows
	profile := filepath.Join(r.temp, "profile")
	if out, err := r.command(ctx, "e2e", "tool", "covdata", "textfmt", "-i="+data, "-o="+profile); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return c, c.read(r.root, profile)
}

func (c *Coverage) read(root, profile string) error {
	text, err := os.ReadFile(profile)
	if err != nil {
		return err
	}
	scanner := bufio.NewScanner(strings.NewReader(string(text)))
	scanner.Scan() // mode: set
	for scanner.Scan() {
		path, rest, _ := strings.Cut(scanner.Text(), ":")
		if !strings.HasPrefix(path, reconcilePackage) {
			continue // the program itself, without which no counter is written
		}
		file := filepath.Base(path)
		var line, column, toLine, toColumn, statements, count int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &line, &column, &toLine, &toColumn, &statements, &count); err != nil {
			return fmt.Errorf("%s: %w", scanner.Text(), err)
		}
		c.All[file] += statements
		if count > 0 {
			c.Run[file] += statements
			continue
		}
		m := Missed{File: file, Line: line, Statements: statements}
		if m.Function, m.Text, err = lookUp(filepath.Join(root, "reconcile", file), line); err != nil {
			return err
		}
		c.Missed = append(c.Missed, m)
	}
	slices.SortFunc(c.Missed, func(a, b Missed) int {
		if a.File != b.File {
			return strings.Compare(a.File, b.File)
		}
		return a.Line - b.Line
	})
	return scanner.Err()
}

// lookUp finds the function that holds a line, and the first line of the block
// that begins at the end of it.
func lookUp(file string, line int) (function, text string, err error) {
	source, err := os.ReadFile(file)
	if err != nil {
		return "", "", err
	}
	lines := strings.Split(string(source), "\n")
	for _, l := range lines[:line] {
		rest, ok := strings.CutPrefix(l, "func ")
		if !ok {
			continue
		}
		if strings.HasPrefix(rest, "(") {
			_, rest, _ = strings.Cut(rest, ") ")
		}
		function, _, _ = strings.Cut(rest, "(")
	}
	text = strings.TrimSpace(lines[line-1])
	if strings.HasSuffix(text, "{") || strings.HasSuffix(text, ":") {
		text = strings.TrimSpace(lines[line])
	}
	return function, text, nil
}

// percent of the statements of the files that f picks.
func (c *Coverage) percent(f func(file string) bool) (run, all int, percent float64) {
	for file, n := range c.All {
		if f(file) {
			all += n
			run += c.Run[file]
		}
	}
	return run, all, 100 * float64(run) / float64(max(all, 1))
}

func (c *Coverage) complaints() []string {
	var list []string
	for _, m := range c.Missed {
		if m.reason() == "" {
			list = append(list, fmt.Sprintf("%s:%d: no comparison runs %q, and the list does not say why", m.File, m.Line, m.Text))
		}
	}
	return list
}
