package cmd

import (
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func newPlan(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	var outputs outputFlags
	var allowGaps bool
	cmd := &cobra.Command{
		Use:   "plan [node/NAME ...]",
		Short: "Show what a freshly started attach/detach controller would do",
		Long: `plan rebuilds the attach/detach controller's actual and desired state of the
world and shows, for each volume and node, what a controller that has just
started would do in its first pass, and what ends each wait and when. It writes
nothing.`,
		Example: `  kubectl volume-doctor plan
  kubectl volume-doctor plan node/n1 -o wide
  kubectl volume-doctor plan -f snapshot.yaml -o json`,
		ValidArgsFunction: g.completeTargets(streams, 0, snapshot.Nodes),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := g.validate(); err != nil {
				return err
			}
			if err := outputs.validate(); err != nil {
				return err
			}
			targets, err := parseTargets(args, "", snapshot.Nodes)
			if err != nil {
				return err
			}
			s, err := g.read(cmd.Context(), streams)
			if err != nil {
				return err
			}
			for _, t := range targets {
				if err := t.mustExist(s); err != nil {
					return err
				}
			}
			world := reconcile.NewWorld(s, g.options())
			doc := output.NewPlan(s, world, world.Reconcile(), nodesOf(targets))
			err = outputs.print(streams.Out, func(w io.Writer, format string) error {
				return output.PrintPlan(w, format, doc, output.Options{Color: g.paints(w)})
			})
			if err != nil {
				return err
			}
			if !doc.Complete && !allowGaps {
				return exitCode(exitNoAnswer)
			}
			return nil
		},
	}
	outputs.add(cmd, output.PlanFormats())
	cmd.Flags().BoolVar(&allowGaps, "allow-gaps", false, "Do not fail because something could not be read")
	return cmd
}
