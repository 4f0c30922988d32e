// Package cmd turns flags into options, wires the other packages together and turns their
// results into an exit code.
package cmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/klog/v2"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// displayName is the command as a person types it.
const displayName = "kubectl volume-doctor"

// The exit codes; scripts depend on them.
const (
	exitHealthy  = 0 // everything asked for was examined, and no finding reaches the threshold
	exitFindings = 1 // at least one finding does
	exitNoAnswer = 2 // usage, connection, or a gap in what could be read
	exitUndone   = 3 // --apply or undo left something undone
)

// exitCode is an error that ends a command with a code and without a message.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// Main runs the command and returns its exit code.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	return Execute(newRoot, args, in, out, errOut)
}

// Execute runs the root command of a program and returns its exit code. Ctrl-C ends it, but
// only after a write under way has its outcome; a second Ctrl-C ends the process immediately.
func Execute(newRoot func(genericiooptions.IOStreams) *cobra.Command, args []string, in io.Reader, out, errOut io.Writer) int {
	klog.SetLogger(logr.Discard()) // client-go's own messages are for those who debug it
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)

	errOut = &safeWriter{under: errOut}
	root := newRoot(genericiooptions.IOStreams{In: in, Out: out, ErrOut: errOut})
	root.SetArgs(args)
	return exitOf(ctx, root.ExecuteContext, errOut)
}

// exitOf runs the command and turns its error into a message and an exit code.
func exitOf(ctx context.Context, command func(context.Context) error, errOut io.Writer) int {
	i := newInterrupts()
	err := i.run(ctx, command)
	if err == nil || errors.As(err, new(exitCode)) {
		return codeOf(err)
	}
	exit := codeOf(err)
	if ctx.Err() != nil {
		exit = i.exitCode()
		if errors.Is(err, context.Canceled) {
			err = errors.New("interrupted")
		}
	}
	if exit != exitHealthy && exit != exitFindings { // otherwise the report is printed, and the command ended as intended
		sayError(errOut, err)
	}
	return exit
}

// sayError prints why a command ended, unless the error is only an exit code.
func sayError(w io.Writer, err error) {
	if err != nil && !errors.As(err, new(exitCode)) {
		fmt.Fprintf(w, "error: %s\n", safetext.Redact(oneLine(err.Error())))
	}
}

// codeOf is the exit code of a command that ended with the error.
func codeOf(err error) int {
	var code exitCode
	switch {
	case err == nil:
		return exitHealthy
	case errors.As(err, &code):
		return int(code)
	default:
		return exitNoAnswer
	}
}

// exitWith is the exit code of a command that has printed its answer.
func exitWith(incomplete, found bool) error {
	switch {
	case incomplete:
		return exitCode(exitNoAnswer)
	case found:
		return exitCode(exitFindings)
	default:
		return nil
	}
}

// oneLine keeps an error on one line: decoders and API servers write more.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// removed has, for each flag that no longer exists, why it is gone and what to use instead.
var removed = map[string]string{
	"clusterprofile-provider-file": "--clusterprofile-provider-file is gone, because a ClusterProfile object could choose the server that gets your credentials, and variables of the program that makes them: " +
		"put the clusters into a kubeconfig, and use --contexts or --kubeconfig-dir",
	"attacher-log": "--attacher-log is gone: give the storage system's own list, which csi-attacher compares with, as --backend",
	"k8sgpt":       "--k8sgpt is gone, because whoever reached the port was answered, without a token: give the assistant kubectl volume-doctor mcp beside k8sgpt's own server",
}

func newRoot(streams genericiooptions.IOStreams) *cobra.Command {
	root := &cobra.Command{
		Use:   repair.FieldManager,
		Short: "Find out why volumes do not attach or detach, and repair it safely",
		Long: `volume-doctor rebuilds what the attach/detach controller believes from the
cluster's objects or from a snapshot file, runs its reconcile logic as a dry
run, shows where reality has drifted from it and why, says what heals by itself
and when, and makes the one safe correction where you ask for it.`,
		Example: `  kubectl volume-doctor diagnose                  # the whole cluster
  kubectl volume-doctor diagnose pod/web-0 -n shop
  kubectl volume-doctor diagnose -f snapshot.yaml # no cluster needed
  kubectl volume-doctor diagnose --apply          # repair, after asking`,
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: displayName},
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return fmt.Errorf("unknown command %q for %q%s", args[0], cmd.CommandPath(), didYouMean(args[0], each(cmd.Commands(), (*cobra.Command).Name)))
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	global := setRoot(root, streams)
	root.AddCommand(
		newDiagnose(global, streams),
		newPlan(global, streams),
		newTrace(global, streams),
		newPreflight(global, streams),
		newSnapshot(global, streams),
		newExplain(global, streams),
		newUndo(global, streams),
		newServe(streams),
		newAuth(global, streams),
		newMCP(global, streams),
		newVersion(streams),
		newOptions(streams),
	)
	return root
}

// setRoot gives the root command of a program what all programs share: the streams, the form
// of errors and help, and the flags of every command.
func setRoot(root *cobra.Command, streams genericiooptions.IOStreams) *globalFlags {
	root.Version = Version()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.ErrOut)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var unknown *pflag.NotExistError
		if !errors.As(err, &unknown) {
			return err
		}
		if why := removed[unknown.GetSpecifiedName()]; why != "" {
			return errors.New(why)
		}
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
		return fmt.Errorf("%w%s", err, didYouMean("--"+unknown.GetSpecifiedName(), names))
	})
	g := newGlobalFlags(root)
	g.completeGlobal(root, streams)
	setHelp(root)
	return g
}
