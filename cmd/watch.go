package cmd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

const (
	// debounce is how long a change waits for those that belong to it: one
	// attach writes three objects.
	debounce = time.Second
	// passing is how long a report may be old although nothing changes: every
	// threshold is a matter of time, and no check counts in less than this.
	passing = 10 * time.Second
	// firstReading bounds how long is waited for the lists of a large cluster
	// before what is there is told.
	firstReading = 2 * time.Minute
)

// notWithWatch are the flags that ask for one report, or for another source.
var notWithWatch = []string{"controller", "backend", "filename", "apply", "for", "contexts", "report", "events", "quiet", "selector"}

func (d *diagnoseFlags) validateWatch(cmd *cobra.Command) error {
	if !d.watch {
		return nil
	}
	for _, name := range notWithWatch {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--watch and --%s exclude each other: --watch follows a cluster and prints a timeline", name)
		}
	}
	if len(d.outputs.values) > 1 || !slices.Contains(output.TimelineFormats(), d.outputs.values[0]) {
		return fmt.Errorf("--watch prints a timeline, as -o table or -o json, to standard output")
	}
	return nil
}

// follow prints what appears, changes and heals until the context ends, and
// ends with the exit code of the last report.
func (d *diagnoseFlags) follow(ctx context.Context, streams genericiooptions.IOStreams) error {
	c, err := d.connectTo(ctx, streams)
	if err != nil {
		return err
	}
	w, err := c.Watch(ctx)
	if err != nil {
		return err
	}
	defer w.Wait()
	if err := awaitBegin(ctx, w); err != nil {
		return err
	}
	fmt.Fprintln(streams.ErrOut, "watching; Ctrl-C ends")
	f := &follower{diagnoseFlags: d, watch: w, streams: streams}
	clock := time.NewTicker(passing)
	defer clock.Stop()
	for {
		if err := f.look(ctx); err != nil {
			return err
		}
		interruptsOf(ctx).exitsWith(codeOf(d.verdict(f.last)))
		select {
		case <-ctx.Done():
			return d.verdict(f.last)
		case <-clock.C:
			f.ping(ctx)
		case <-w.Changed():
			if sleep(ctx, debounce) != nil {
				return d.verdict(f.last)
			}
		}
	}
}

// awaitBegin waits until every kind is read or refused.
func awaitBegin(ctx context.Context, w *cluster.Watch) error {
	enough := time.After(firstReading)
	for !w.Began() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-enough:
			return nil
		case <-w.Changed():
		case <-time.After(debounce):
		}
	}
	return nil
}

// follower makes one report after the other.
type follower struct {
	*diagnoseFlags
	watch    *cluster.Watch
	streams  genericiooptions.IOStreams
	timeline finding.Timeline
	last     *finding.Report
	// unanswered is why the API server did not answer last.
	unanswered error
}

// ping asks for a sign of life; a connection that hangs would look like a
// cluster in which nothing happens.
func (f *follower) ping(ctx context.Context) {
	if err := f.watch.Ping(ctx); ctx.Err() == nil {
		f.unanswered = err
	}
}

func (f *follower) look(ctx context.Context) error {
	if f.unanswered != nil {
		f.ping(ctx) // a change is a sign of life
	}
	s, err := f.watch.Snapshot(f.unanswered)
	if err != nil {
		return err
	}
	if f.last == nil {
		f.leaveOut.sayExpired(f.streams.ErrOut, s.TakenAt)
		f.assume(s, f.streams.ErrOut)
		// Later they may go and come back.
		if err := mustBeKnown(f.targets, s); err != nil {
			return err
		}
	} else if f.kubernetesVersion != "" {
		s.Source.ServerVersion = f.kubernetesVersion
	}
	view, _, err := f.narrowed(s, nil)
	if err != nil {
		return err
	}
	f.last = view.Report
	for _, e := range f.timeline.Next(view.Report) {
		opts := f.shown(f.streams.Out)
		if err := output.PrintEntry(f.streams.Out, f.outputs.values[0], e, opts); err != nil {
			return err
		}
	}
	return nil
}
