package cmd

import (
	"context"
	"errors"
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Standing is what a program that follows a cluster permanently shares with diagnose --watch:
// the flags of every command, those that narrow a report, and the way from a snapshot to a
// report.
type Standing struct {
	examination
	only, skip []string
	errOut     io.Writer
}

// NewStanding makes the command the root of a program, and adds the flags.
func NewStanding(root *cobra.Command, streams genericiooptions.IOStreams) *Standing {
	s := &Standing{errOut: streams.ErrOut}
	s.globalFlags = setRoot(root, streams)
	addNarrowing(root, &s.only, &s.skip, &s.leaveOut)
	return s
}

// Connect validates the flags of the root, and prepares the connection to the cluster.
func (s *Standing) Connect(root *cobra.Command, streams genericiooptions.IOStreams) (c *cluster.Cluster, err error) {
	if err := s.globalFlags.validate(); err != nil {
		return nil, err
	}
	if s.file != "" {
		return nil, errors.New("serve follows a cluster: it does not go with -f")
	}
	if s.checks, err = selectChecks(s.only, s.skip); err != nil {
		return nil, err
	}
	if err := s.leaveOut.read("", streams.In, streams.ErrOut); err != nil {
		return nil, err
	}
	s.driverObjects = true
	s.taken, s.asks = takenOver(root.Flags()), asks(nil)
	to, err := s.connect(streams)
	return to.Cluster, err
}

// Namespace is that of -n, else the pod's own, else the kubeconfig's.
func (s *Standing) Namespace() (string, error) { return s.namespace() }

// Look makes a report about the snapshot. The first one prints the warnings that apply to
// all.
func (s *Standing) Look(taken *snapshot.Snapshot, first bool) (*repair.View, error) {
	return s.lookAgain(taken, first, s.errOut)
}

// EndsInOrder makes an interrupted process wait for release, and end with exit code 0.
func EndsInOrder(ctx context.Context) (release func()) {
	process := interruptsOf(ctx)
	process.exitsWith(exitHealthy)
	process.hold()
	return process.release
}
