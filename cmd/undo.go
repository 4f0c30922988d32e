package cmd

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

func newUndo(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "undo JOURNAL",
		Short: "Take back what --apply wrote, newest first",
		Long: `undo takes back the writes that a journal of diagnose --apply lists, newest
first. Each is taken back exactly, or refused where that could do harm, such as
while a pod uses the volume. What it does goes into the same journal.

Exit code: 0 all taken back or nothing left to take back, 2 no answer, 3 at
least one refused or failed.`,
		Example: `  kubectl volume-doctor undo volume-doctor-20261120T100000Z.journal`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := g.validate(); err != nil {
				return err
			}
			if g.file != "" {
				return fmt.Errorf("undo needs a cluster: -f does not go with it")
			}
			journal, entries, err := openJournal(args[0], 0)
			if err != nil {
				return err
			}
			defer journal.Close()
			c, err := g.connect(streams)
			if err != nil {
				return err
			}
			applier := &repair.Applier{
				Cluster: c,
				Options: diagnose.Options{Reconcile: g.options()},
				Journal: repair.NewJournal(journal, time.Now, entries),
				Observe: narrate(streams.ErrOut),
				Wait:    sleep,
			}
			results, err := applier.Undo(cmd.Context(), entries)
			if err != nil && len(results) == 0 {
				return err
			}
			if err != nil {
				fmt.Fprintf(streams.ErrOut, "error: %s\n", oneLine(err.Error()))
				return exitCode(exitUndone)
			}
			if len(results) == 0 {
				fmt.Fprintln(streams.ErrOut, "the journal lists nothing that could be taken back")
			}
			for _, r := range results {
				if r.LeftUndone() {
					return exitCode(exitUndone)
				}
			}
			return nil
		},
	}
}
