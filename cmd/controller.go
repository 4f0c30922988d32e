package cmd

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/evidence/controllerlog"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The values of --controller beside the name of a file.
const (
	controllerAuto = "auto"
	controllerOff  = "off"
)

// addController adds the flag to a command that reads the controller's log.
func (g *globalFlags) addController(cmd *cobra.Command) {
	cmd.Flags().StringVar(&g.controller, "controller", "", "auto asks the kube-controller-manager at work; bundle takes its log out of the bundle of -f; else its log, at --v=2 or more, or - for standard input; off leaves out what a snapshot kept of either")
	_ = cmd.MarkFlagFilename("controller")
}

// remember adds to the snapshot what the log of --controller proves, and warns where that is
// less than it could be.
func (g *globalFlags) remember(s *snapshot.Snapshot, streams genericiooptions.IOStreams) error {
	switch g.controller {
	case "", controllerOff:
	case controllerAuto:
		if s.Manager == nil {
			fmt.Fprintln(streams.ErrOut, "warning: a file cannot be asked, and it has kept nothing that kube-controller-manager was asked")
		}
	default:
		log, err := g.readController(s, streams)
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

// assumeManager uses the release and the settings that the kube-controller-manager reported.
// A flag takes precedence.
func (g *globalFlags) assumeManager(s *snapshot.Snapshot, warn io.Writer) {
	m := s.Manager
	say := func(format string, args ...any) { fmt.Fprintf(warn, format+"\n", args...) }
	if m.Gap != "" {
		say("note: kube-controller-manager itself adds less than it could: %s", output.Safe(m.Gap))
	}
	plain := func(release string) string { return release[:strings.IndexAny(release+"+", "+-")] }
	if server := s.Source.ServerVersion; reconcile.IsRelease(m.Release) && plain(m.Release) != plain(server) && g.kubernetesVersion == "" {
		say("note: kube-controller-manager is %s and the API server %s: the model follows the former", output.Safe(m.Release), output.Safe(server))
		s.Source.ServerVersion = m.Release
	}
	const forceDetach, syncPeriod, noSync = "disable-force-detach-on-timeout", "attach-detach-reconcile-sync-period", "disable-attach-detach-reconcile-sync"
	if off, err := strconv.ParseBool(m.Flags[forceDetach]); err == nil && off != g.disableForceDetach {
		if g.given(forceDetach) {
			say("warning: kube-controller-manager runs with --%s=%t, which contradicts the flag given here: that counts", forceDetach, off)
		} else {
			g.disableForceDetach = off
		}
	}
	const follows = "the model follows that (its pod in kube-system says so)"
	if period, err := time.ParseDuration(m.Flags[syncPeriod]); err == nil && period >= time.Second && period != reconcile.VerifySyncPeriod {
		say("note: kube-controller-manager runs with --%s=%s: %s", syncPeriod, period, follows)
		g.verifySync = period
	}
	if off, err := strconv.ParseBool(m.Flags[noSync]); err == nil && off {
		say("note: kube-controller-manager runs with --%s, so that it never forgets an attachment by itself: %s", noSync, follows)
		g.verifySync = -1
	}
	g.featureGates = reconcile.ParseGates(m.Flags[reconcile.FeatureGatesFlag])
	release := cmp.Or(g.kubernetesVersion, s.Source.ServerVersion)
	for _, gate := range reconcile.Deciding(release, g.featureGates) {
		say("note: kube-controller-manager runs with --%s=%s=%t: %s", reconcile.FeatureGatesFlag, gate.Name, g.featureGates[gate.Name], follows)
	}
	for _, name := range reconcile.UnknownGates(release, g.featureGates) {
		say("warning: kube-controller-manager runs with --%s=%s=true, which the model does not know: it may be wrong about Ceph RBD volumes", reconcile.FeatureGatesFlag, name)
	}
}

func (g *globalFlags) readController(s *snapshot.Snapshot, streams genericiooptions.IOStreams) (*snapshot.Controller, error) {
	if g.controller == controllerBundle {
		return g.bundledController(s, streams)
	}
	in, _, err := openInput(g.controller, streams.In)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }()
	now := s.TakenAt
	if g.file == "" {
		now = now.Add(reconcile.ClocksDiffer)
	}
	return controllerlog.Read(in, controllerlog.Options{Now: now, Release: s.Source.ServerVersion})
}
