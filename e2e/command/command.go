// Package command runs the product's own command, as a process, against a control plane of
// the tests.
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

// Binary is the name under which kubectl finds the command, and Serve the name of the program
// of its command serve.
const (
	Binary = "kubectl-volume_doctor"
	Serve  = Binary + "-serve"
)

// kubectl takes minutes to build the first time, and few tests need it.
const kubectl = "kubectl"

// Build compiles the programs and kubectl into dir, once in a process.
var Build = sync.OnceValues(func() (dir string, err error) {
	if dir, err = programs(); err != nil {
		return "", err
	}
	return dir, build(dir, ".", kubectl, "k8s.io/kubernetes/cmd/kubectl")
})

// programs compiles the programs alone.
var programs = sync.OnceValues(func() (dir string, err error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/volume-doctor/kubectl-volume-doctor/e2e").Output()
	if err != nil {
		return "", fmt.Errorf("find the e2e module: %w", err)
	}
	dir = filepath.Join(strings.TrimSpace(string(out)), "bin")
	if err := build(dir, "..", Binary, "."); err != nil {
		return "", err
	}
	return dir, build(dir, "..", Serve, "./standing/"+Serve)
})

// build compiles a package of the module in the folder beside dir, without symbols, as for a
// release.
func build(dir, folder, binary, pkg string) error {
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(dir, binary), pkg)
	build.Dir = filepath.Join(dir, "..", folder)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", binary, err, text)
	}
	return nil
}

// Result is the output of a run of the command.
type Result struct {
	Stdout, Stderr string
	Code           int
}

// Run runs a binary of Build with the kubeconfig and the arguments.
func Run(ctx context.Context, binary, kubeconfig string, args ...string) (Result, error) {
	compile := programs
	if binary == kubectl {
		compile = Build
	}
	dir, err := compile()
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

// WithoutProgress is the command's standard error without the lines about steps that take
// longer than a second: on a busy machine any step may.
func WithoutProgress(said string) string { return progress.ReplaceAllString(said, "") }
