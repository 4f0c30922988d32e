package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// serveProgram is the program that kubectl runs for "kubectl volume-doctor serve".
const serveProgram = "kubectl-volume_doctor-serve"

// newServe passes the command line on to the program that serves. Users call this program by its
// own name, and krew puts only this one on PATH.
func newServe(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "serve",
		Short: "Follow the cluster for good, and serve what is found as metrics",
		Long: `serve follows the cluster as diagnose --watch does, and serves what it finds as
metrics. It is a program of its own, ` + serveProgram + `, which has to
lie beside this one or on PATH: "kubectl volume-doctor serve --help" lists its
flags.`,
		Example:            `  kubectl volume-doctor serve --leader-elect=false --listen 127.0.0.1:8080`,
		DisableFlagParsing: true, // the program parses its own flags
		RunE: func(cmd *cobra.Command, args []string) error {
			program, err := findServe()
			if err != nil {
				return err
			}
			if streams.Out == os.Stdout {
				if err := become(program, args); !errors.Is(err, errors.ErrUnsupported) {
					return err
				}
			}
			return runServe(cmd.Context(), program, args, streams)
		},
		ValidArgsFunction: completeServe,
	}
}

// findServe looks for the program beside this one, where every archive and the image have it,
// and then on PATH.
func findServe() (string, error) {
	self, err := os.Executable()
	if err == nil {
		self, err = filepath.EvalSymlinks(self) // krew puts a link on PATH
	}
	if err != nil {
		return "", fmt.Errorf("where does this program lie: %w", err)
	}
	beside := filepath.Join(filepath.Dir(self), serveProgram)
	if runtime.GOOS == "windows" {
		beside += ".exe"
	}
	if _, err := os.Stat(beside); err == nil {
		return beside, nil
	}
	if onPath, err := exec.LookPath(serveProgram); err == nil {
		return onPath, nil
	}
	return "", fmt.Errorf("serve is a program of its own, %s, and it is neither in %s nor on PATH: every release and \"make build\" have it", serveProgram, filepath.Dir(self))
}

// runServe runs the program with the streams, and ends with its exit code. A terminal sends
// Ctrl-C to both processes.
func runServe(ctx context.Context, program string, args []string, streams genericiooptions.IOStreams) error {
	process := interruptsOf(ctx)
	process.hold()
	defer process.release()
	child := exec.Command(program, args...)
	child.Stdin, child.Stdout, child.Stderr = streams.In, streams.Out, underneath(streams.ErrOut)
	err := child.Run()
	var ended *exec.ExitError
	if errors.As(err, &ended) && ended.ExitCode() >= 0 {
		return exitCode(ended.ExitCode())
	}
	return err
}

// completeServe asks the program to complete its command line.
func completeServe(cmd *cobra.Command, args []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	program, err := findServe()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	var out strings.Builder
	args = append(append([]string{cobra.ShellCompRequestCmd}, args...), word)
	err = runServe(ctx, program, args, genericiooptions.IOStreams{Out: &out, ErrOut: io.Discard})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := len(lines) - 1
	directive, bad := strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
	if err != nil || bad != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:last], cobra.ShellCompDirective(directive)
}
