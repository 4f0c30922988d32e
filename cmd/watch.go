package cmd

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// notWithWatch are the flags that ask for a single report, or for another source.
var notWithWatch = []string{"controller", "backend", "filename", "apply", "for", "contexts", "all-contexts", "kubeconfig-dir", "report", "events", "quiet", "selector"}

func mayWatch(flags *pflag.FlagSet, outputs outputFlags) error {
	for _, name := range notWithWatch {
		if flags.Changed(name) {
			return fmt.Errorf("--watch and --%s exclude each other: --watch follows a cluster and prints a timeline", name)
		}
	}
	if len(outputs.values) > 1 || !slices.Contains(output.TimelineFormats(), outputs.values[0]) {
		return fmt.Errorf("--watch prints a timeline, as -o table or -o json, to standard output")
	}
	return nil
}

// watch makes one report after the other, and prints the findings that appear, change and
// heal.
type watch struct {
	*examination
}

// run continues until the context ends, and ends with the exit code of the last report.
func (m *watch) run(ctx context.Context, streams genericiooptions.IOStreams) error {
	c, err := m.connectTo(ctx, streams)
	if err != nil {
		return err
	}
	var timeline finding.Timeline
	var last *finding.Report
	err = c.Follow(ctx, func(s *snapshot.Snapshot) error {
		first := last == nil
		if first {
			fmt.Fprintln(streams.ErrOut, "watching; Ctrl-C ends")
		}
		view, err := m.lookAgain(s, first, streams.ErrOut)
		if err != nil {
			return err
		}
		last = view.Report
		for _, e := range timeline.Next(last, view.Undecided) {
			if err := output.PrintEntry(streams.Out, m.outputs.values[0], e, m.shown(streams.Out)); err != nil {
				return err
			}
		}
		interruptsOf(ctx).exitsWith(codeOf(m.verdict(last)))
		return nil
	})
	if err != nil {
		return err
	}
	return m.verdict(last)
}

// lookAgain makes one of many reports about the same cluster. The first one prints the
// warnings that apply to all, and its targets must exist: later they may go and come back.
func (e *examination) lookAgain(s *snapshot.Snapshot, first bool, errOut io.Writer) (*repair.View, error) {
	if !first {
		errOut = io.Discard
	}
	e.leaveOut.sayExpired(errOut, s.TakenAt)
	e.assume(s, errOut)
	if first {
		if err := mustBeKnown(e.targets, s); err != nil {
			return nil, err
		}
	}
	view, _, err := e.narrowed(s, nil)
	if err == nil {
		e.since = view.Report.FoundSince(e.since)
	}
	return view, err
}
