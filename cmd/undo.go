package cmd

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// undoFlags are the flags of undo.
type undoFlags struct {
	*globalFlags
	ask         applyFlags // those that decide whether to ask and to write
	serverMoved bool
}

func newUndo(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	u := &undoFlags{globalFlags: g, ask: applyFlags{enabled: true, asker: "undo"}}
	command := &cobra.Command{
		Use:   "undo JOURNAL",
		Short: "Take back what --apply wrote, newest first",
		Long: `undo takes back the writes that a journal of diagnose --apply lists, newest
first, after asking. Each is taken back exactly, or refused where that could do
harm, such as while a pod uses the volume. What it does goes into the same
journal.

It works on the cluster that the journal names, and takes back only what the
object itself shows to be written by this tool: by its annotation, and for a
node's volumesAttached by the managed fields too. A journal that was changed is
refused as a whole. What could not be read is never taken for gone.

Exit code: 0 all taken back or nothing left to take back, 2 no answer, 3 at
least one refused or failed.`,
		Example: `  kubectl volume-doctor undo volume-doctor-20261120T100000.123Z-1a2b3c4d.journal
  kubectl volume-doctor undo volume-doctor-20261120T100000.123Z-1a2b3c4d.journal --dry-run=server`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return u.run(cmd, streams, args[0]) },
	}
	f := command.Flags()
	f.BoolVar(&u.ask.yes, "yes", false, "Do not ask")
	f.StringVar(&u.ask.dryRun, "dry-run", "none", "Write nothing (client), or let the API server check and not store (server)")
	f.Lookup("dry-run").NoOptDefVal = "client"
	f.BoolVar(&u.serverMoved, "server-moved", false, "The journal names another server: this is the same cluster under a new address")
	return command
}

func (u *undoFlags) run(cmd *cobra.Command, streams genericiooptions.IOStreams, name string) error {
	if err := errors.Join(u.validate(), u.ask.unknownMode()); err != nil {
		return err
	}
	if u.file != "" {
		return errors.New("undo needs a cluster: -f does not go with it")
	}
	journal, entries, err := openJournal(cmd.Context(), name, 0)
	if err != nil {
		return err
	}
	defer journal.Close()
	writes, err := apply.Reversible(entries)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(writes) == 0 {
		fmt.Fprintln(streams.ErrOut, "the journal lists nothing that could be taken back")
		return nil
	}
	if err := u.ask.mayAsk(streams.In); err != nil {
		return err
	}
	c, err := u.connect(streams)
	if err != nil {
		return err
	}
	if servers := apply.ServersOf(entries); !u.serverMoved && !slices.Equal(servers, []string{c.Server()}) {
		fmt.Fprintf(streams.ErrOut, "error: nothing was written: the journal is of %s, and this is %s; if that is the same cluster under a new address, give --server-moved\n",
			output.Safe(fmt.Sprintf("%q", servers)), output.Safe(c.Server()))
		return exitCode(exitUndone)
	}
	for _, write := range writes {
		fmt.Fprintf(streams.ErrOut, "undo: %s\n", output.Safe(write))
	}
	if !u.confirmed(streams, len(writes)) {
		fmt.Fprintln(streams.ErrOut, "nothing was written")
		return exitCode(exitUndone)
	}
	if u.ask.writes() {
		if err := c.ProveClock(cmd.Context()); err != nil {
			return fmt.Errorf("nothing was written: %w", err)
		}
	}
	applier := &apply.Applier{
		Cluster:     c,
		Options:     diagnose.Options{Reconcile: u.options()},
		Journal:     apply.NewJournal(journal, time.Now, entries),
		Observe:     narrate(streams.ErrOut),
		Wait:        sleep,
		DryRun:      u.ask.mode(),
		ServerMoved: u.serverMoved,
	}
	interruptsOf(cmd.Context()).exitsWith(exitUndone)
	results, err := applier.Undo(cmd.Context(), entries)
	if err != nil && len(results) == 0 {
		return err
	}
	if err != nil {
		fmt.Fprintf(streams.ErrOut, "error: %s\n", oneLine(err.Error()))
		return exitCode(exitUndone)
	}
	if slices.ContainsFunc(results, apply.Result.LeftUndone) {
		return exitCode(exitUndone)
	}
	return nil
}

// confirmed asks for confirmation, unless nothing is to be written or --yes is set.
func (u *undoFlags) confirmed(streams genericiooptions.IOStreams, writes int) bool {
	if u.ask.yes || !u.ask.writes() {
		return true
	}
	return agreed(streams, bufio.NewReader(streams.In), "Take back", writes, "write")
}
