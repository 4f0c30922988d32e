package cmd

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/spf13/pflag"
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

// watch makes one report after the other, and prints what appears, changes and heals.
type watch struct {
	*examination
	watch    *cluster.Watch
	streams  genericiooptions.IOStreams
	timeline finding.Timeline
	last     *finding.Report
	// unanswered is why the API server did not answer last.
	unanswered error
}

// run goes on until the context ends, and ends with the exit code of the last report.
func (m *watch) run(ctx context.Context, streams genericiooptions.IOStreams) error {
	c, err := m.connectTo(ctx, streams)
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
	m.watch, m.streams = w, streams
	clock := time.NewTicker(passing)
	defer clock.Stop()
	for {
		if err := m.look(ctx); err != nil {
			return err
		}
		interruptsOf(ctx).exitsWith(codeOf(m.verdict(m.last)))
		select {
		case <-ctx.Done():
			return m.verdict(m.last)
		case <-clock.C:
			m.ping(ctx)
		case <-w.Changed():
			if sleep(ctx, debounce) != nil {
				return m.verdict(m.last)
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

// ping asks for a sign of life; a connection that hangs would look like a
// cluster in which nothing happens.
func (m *watch) ping(ctx context.Context) {
	if err := m.watch.Ping(ctx); ctx.Err() == nil {
		m.unanswered = err
	}
}

func (m *watch) look(ctx context.Context) error {
	if m.unanswered != nil {
		m.ping(ctx) // a change is a sign of life
	}
	s, err := m.watch.Snapshot(m.unanswered)
	if err != nil {
		return err
	}
	if m.last == nil {
		m.leaveOut.sayExpired(m.streams.ErrOut, s.TakenAt)
		m.assume(s, m.streams.ErrOut)
		// Later they may go and come back.
		if err := mustBeKnown(m.targets, s); err != nil {
			return err
		}
	} else if m.kubernetesVersion != "" {
		s.Source.ServerVersion = m.kubernetesVersion
	}
	view, _, err := m.narrowed(s, nil)
	if err != nil {
		return err
	}
	m.last = view.Report
	for _, e := range m.timeline.Next(view.Report) {
		opts := m.shown(m.streams.Out)
		if err := output.PrintEntry(m.streams.Out, m.outputs.values[0], e, opts); err != nil {
			return err
		}
	}
	return nil
}
