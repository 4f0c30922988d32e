package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/controllerlog"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// addController adds the flag to a command that reads the controller's log.
func (g *globalFlags) addController(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.controller, "controller", "", "The log of kube-controller-manager, at --v=2 or more, or - for standard input; off leaves out what a snapshot kept of one")
	_ = cmd.MarkFlagFilename("controller")
}

// remember adds to the snapshot what the log of --controller proves, and says where
// that is less than it could be.
func (g *globalFlags) remember(s *snapshot.Snapshot, streams genericiooptions.IOStreams) error {
	switch g.controller {
	case "":
	case "off":
		s.Controller = nil
	case "auto":
		fmt.Fprintln(streams.ErrOut, "warning: the running controller is not asked yet: give the file of its log to --controller")
	default:
		log, err := g.readController(s, streams.In)
		if err != nil {
			return fmt.Errorf("--controller %s: %w", safetext.Quote(g.controller), err)
		}
		s.Controller = log
	}
	if s.Controller == nil {
		return nil
	}
	warn := func(what string) { fmt.Fprintf(streams.ErrOut, "warning: the controller's log %s\n", what) }
	memory := reconcile.MemoryOf(s)
	switch {
	case memory == nil:
		warn("is not of the kube-controller-manager that leads now, by its lease, or is of a later time: it is left out")
	case s.Controller.Started == nil:
		warn("does not show how the controller starts: what it does not mention, the controller may know all the same")
	case !memory.Leads:
		warn("is of a controller of which no lease shows that it leads: what it does not mention proves nothing")
	}
	if memory != nil && s.Controller.Flags["disable-force-detach-on-timeout"] == "true" && !g.disableForceDetach {
		warn("shows --disable-force-detach-on-timeout: give that flag here, too")
	}
	return nil
}

func (g *globalFlags) readController(s *snapshot.Snapshot, stdin io.Reader) (*snapshot.Controller, error) {
	in := stdin
	if g.controller != "-" {
		f, err := os.Open(g.controller)
		if err != nil {
			if path, ok := errors.AsType[*fs.PathError](err); ok {
				err = path.Err
			}
			return nil, err
		}
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.IsDir() {
			return nil, errors.New("it is a directory")
		}
		in = f
	}
	now := s.TakenAt
	if g.file == "" {
		now = now.Add(reconcile.ClocksDiffer)
	}
	return controllerlog.Read(in, controllerlog.Options{Now: now, Release: s.Source.ServerVersion})
}
