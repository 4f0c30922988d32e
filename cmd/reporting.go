package cmd

import (
	"context"
	"fmt"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// reporting is diagnose without another mode: one report about a file or a cluster, and with
// --events an event about each finding.
type reporting struct {
	*examination
	events bool
}

func (m *reporting) run(ctx context.Context, streams genericiooptions.IOStreams) error {
	l, err := m.begin(ctx, streams)
	if err != nil {
		return err
	}
	view, _, err := m.look(l.now, l.first)
	if err != nil {
		return err
	}
	atLeast := exitHealthy
	if m.events {
		// An event that could not be written counts as a missing answer.
		recorder := cluster.Recorder{Cluster: l.cluster.Cluster}
		for _, err := range recorder.Record(ctx, view.Report) {
			atLeast = exitNoAnswer
			fmt.Fprintf(streams.ErrOut, "error: %s\n", output.Safe(oneLine(err.Error())))
		}
	}
	return m.finish(streams, view.Report, atLeast)
}
