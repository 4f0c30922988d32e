package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/mutation/found"
)

// Outcome is what became of a mutant.
type Outcome struct {
	Mutant
	found.Result
	// Timing is the first test that failed of those that watch a running
	// controller, asked about until.go where conformance was blind.
	Timing string
	// UnitTest is the first that failed, asked where neither noticed.
	UnitTest string
	Seconds  float64
	// Err says why the mutant could not be tried.
	Err error
}

// runner applies mutants in overlays, next to each other.
type runner struct {
	root     string // of the repository
	temp     string
	clusters int
	seed     uint64
	// fixedStories is how many histories each judge of until.go lives through beside random ones.
	fixedStories int
}

// unseenClusters are enough for a mutant of which the list says that no
// controller contradicts it.
const unseenClusters = 60

// build builds the program of e2e with the mutant in it.
func (r *runner) build(ctx context.Context, m Mutant, program string) (binary, overlay string, err error) {
	if overlay, err = r.overlay(m); err != nil {
		return "", "", err
	}
	binary = filepath.Join(r.temp, m.Name)
	if out, err := r.command(ctx, "e2e", "build", "-ldflags=-s -w", "-overlay", overlay, "-o", binary, program); err != nil {
		return "", "", fmt.Errorf("%s: %w\n%s", m.Name, err, out)
	}
	return binary, overlay, nil
}

// hunt builds the comparison with the mutant in it and lets it run.
func (r *runner) hunt(ctx context.Context, m Mutant) (Outcome, error) {
	start := time.Now()
	outcome := Outcome{Mutant: m}
	binary, overlay, err := r.build(ctx, m, "./mutation/hunt")
	if err != nil {
		return outcome, err
	}
	defer os.Remove(binary) //nolint:errcheck // the folder goes anyway
	clusters := r.clusters
	if m.Unseen != "" {
		clusters = min(clusters, unseenClusters)
	}
	if outcome.Result, err = r.ask(ctx, binary, clusters, m.asked()); err != nil {
		return outcome, fmt.Errorf("%s: %w", m.Name, err)
	}
	if outcome.Difference == nil && m.File == "until.go" {
		if outcome.Timing, err = r.test(ctx, overlay, "e2e", "./timing"); err != nil {
			return outcome, err
		}
	}
	if outcome.Difference == nil && outcome.Timing == "" {
		if outcome.UnitTest, err = r.test(ctx, overlay, "", "./reconcile"); err != nil {
			return outcome, err
		}
	}
	outcome.Seconds = time.Since(start).Seconds()
	return outcome, nil
}

// test returns the first test of the package that fails with the mutant in it.
func (r *runner) test(ctx context.Context, overlay, dir, pkg string) (string, error) {
	out, err := r.command(ctx, dir, "test", "-overlay", overlay, pkg)
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return "", err
	}
	return firstFailed(out), nil
}

func (r *runner) ask(ctx context.Context, binary string, clusters int, releases []conformance.Release, env ...string) (found.Result, error) {
	var names []string
	for _, release := range releases {
		names = append(names, string(release))
	}
	var result found.Result
	cmd := exec.CommandContext(ctx, binary, "-releases", strings.Join(names, ","),
		"-clusters", fmt.Sprint(clusters), "-seed", fmt.Sprint(r.seed))
	cmd.Env = append(os.Environ(), env...)
	out, err := r.output(cmd)
	if err != nil {
		return result, err
	}
	return result, json.Unmarshal(out, &result)
}

// output runs a program in the folder e2e.
func (r *runner) output(cmd *exec.Cmd) ([]byte, error) {
	cmd.Dir = filepath.Join(r.root, "e2e")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.Bytes())
	}
	return out, nil
}

// overlay writes the mutated file and the map that puts it over the real one.
func (r *runner) overlay(m Mutant) (string, error) {
	source, err := m.Apply(r.root)
	if err != nil {
		return "", err
	}
	file, overlay := filepath.Join(r.temp, m.Name+".go"), filepath.Join(r.temp, m.Name+".json")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		return "", err
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {m.path(r.root): file}})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, replace, 0o600)
}

func (r *runner) command(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(r.root, dir)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

var failLine = regexp.MustCompile(`--- FAIL: (\S+)`)

// firstFailed names the first test that failed.
func firstFailed(out string) string {
	var names []string
	for _, match := range failLine.FindAllStringSubmatch(out, -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 {
		return ""
	}
	// The innermost name says most: it comes right after its parents.
	return slices.MaxFunc(names[:min(3, len(names))], func(a, b string) int { return strings.Count(a, "/") - strings.Count(b, "/") })
}
