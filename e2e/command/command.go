// Package command runs the product's own command, as a process, against a
// control plane of the tests.
package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// Binary is the name under which kubectl finds the command, and Serve that of the program
// of its command serve.
const (
	Binary = "kubectl-volume_doctor"
	Serve  = Binary + "-serve"
)

// Build compiles the programs and kubectl into dir, once in a process.
var Build = sync.OnceValues(func() (dir string, err error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/volume-doctor/kubectl-volume-doctor/e2e").Output()
	if err != nil {
		return "", fmt.Errorf("find the e2e module: %w", err)
	}
	e2e := strings.TrimSpace(string(out))
	dir = filepath.Join(e2e, "bin")
	for _, target := range []struct{ folder, binary, pkg string }{
		{filepath.Dir(e2e), Binary, "."},
		{filepath.Dir(e2e), Serve, "./standing/" + Serve},
		{e2e, "kubectl", "k8s.io/kubernetes/cmd/kubectl"},
	} {
		build := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, target.binary), target.pkg) // without symbols, as it is released
		build.Dir = target.folder
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := build.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", target.binary, err, text)
		}
	}
	return dir, nil
})

// Result is what a run of the command left behind.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Run runs a binary of Build with the kubeconfig and the arguments.
func Run(ctx context.Context, binary, kubeconfig string, args ...string) (Result, error) {
	dir, err := Build()
	if err != nil {
		return Result{}, err
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(dir, binary), args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "PATH="+dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return Result{}, err
	}
	return Result{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}, nil
}

var progress = regexp.MustCompile(`(?m)^reading .*\n`)

// WithoutProgress is what the command said on standard error, without the lines about what
// takes longer than a second: on a busy machine everything may.
func WithoutProgress(said string) string { return progress.ReplaceAllString(said, "") }
