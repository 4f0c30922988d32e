package cmd

import (
	"context"
	"errors"
	"fmt"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func (d *diagnoseFlags) validateEvents() error {
	switch {
	case !d.events:
		return nil
	case d.file != "":
		return errors.New("--events writes to a cluster: it does not go with -f")
	case d.apply.enabled:
		return errors.New("--events and --apply exclude each other: a repair writes its own event")
	default:
		return nil
	}
}

// reportAndRecord reports, and writes an event about each finding of the report.
// An event that could not be written is an answer that did not arrive.
func (d *diagnoseFlags) reportAndRecord(ctx context.Context, streams genericiooptions.IOStreams, c watched, s *snapshot.Snapshot, earlier *finding.Report) error {
	view, _, err := d.look(s, earlier)
	if err != nil {
		return err
	}
	atLeast := exitHealthy
	for _, err := range c.Record(ctx, view.Report) {
		atLeast = exitNoAnswer
		fmt.Fprintf(streams.ErrOut, "error: %s\n", output.Safe(oneLine(err.Error())))
	}
	return d.finish(streams, view.Report, atLeast)
}
