package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/command"
)

// runnerFile, in the environment, makes this program a runner.
const runnerFile = "VOLUME_DOCTOR_BENCH_USAGE"

// usage is what a runner tells of the command that it ran.
type usage struct {
	Wall, CPU time.Duration
	Memory    int64
	Exit      int
}

// runner runs one command for another process of this program, and ends. Linux
// counts to a command's peak the memory that the process has which starts it, so
// that whoever measures memory must have little: this one has 40 MB, below which
// no peak is shown.
func runner() {
	file := os.Getenv(runnerFile)
	if file == "" {
		return
	}
	_ = os.Unsetenv(runnerFile) // it is there
	cmd := exec.Command(os.Args[1], os.Args[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// A command dies with who runs it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	began := time.Now()
	err := cmd.Run()
	u := usage{Wall: time.Since(began)}
	if cmd.ProcessState == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	u.CPU, u.Exit = cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime(), cmd.ProcessState.ExitCode()
	if r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		u.Memory = r.Maxrss * 1024 // Linux counts in KiB
	}
	text, err := json.Marshal(u)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// execute runs a command once. Findings are no failure.
func execute(ctx context.Context, kubeconfig string, stdout io.Writer, args ...string) (took, error) {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	self, err := os.Executable()
	if err != nil {
		return took{}, err
	}
	file, err := os.CreateTemp("", "bench-usage-")
	if err != nil {
		return took{}, err
	}
	_ = file.Close() // nothing was written
	defer func() { _ = os.Remove(file.Name()) }()
	var stderr bytes.Buffer
	cmd := exec.CommandContext(limited, self, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, runnerFile+"="+file.Name())
	cmd.Stdout, cmd.Stderr = stdout, &stderr
	err = cmd.Run()
	if ctx.Err() == nil && limited.Err() != nil {
		return took{wall: patience, missing: "not finished in " + patience.String()}, nil
	}
	if err != nil {
		return took{}, fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, stderr.String())
	}
	var u usage
	text, err := os.ReadFile(file.Name())
	if err == nil {
		err = json.Unmarshal(text, &u)
	}
	if err == nil && u.Exit != 0 && (u.Exit != 1 || !strings.Contains(filepath.Base(args[0]), command.Binary)) {
		err = fmt.Errorf("exit code %d: %s", u.Exit, stderr.String())
	}
	if err != nil {
		return took{}, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return took{wall: u.Wall, cpu: u.CPU, memory: u.Memory}, nil
}
