package cmd

import (
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
			targets, s, err := g.readTargets(&outputs, args, snapshot.Nodes, func([]target) (*snapshot.Snapshot, error) { return g.read(cmd.Context(), streams) })
			if err != nil {
				return err
			}
			if err := g.remember(s, streams); err != nil {
				return err
			}
			world := reconcile.NewWorld(s, g.options())
			doc := output.NewPlan(s, world, world.Reconcile(), nodesOf(targets))
			if err := printTo(g, &outputs, streams.Out, doc, output.PrintPlan); err != nil {
				return err
			}
			if !doc.Complete && !allowGaps {
				return exitCode(exitNoAnswer)
			}
			return nil
		},
	}
	outputs.add(cmd, output.PlanFormats())
	g.addController(cmd)
	cmd.Flags().BoolVar(&allowGaps, "allow-gaps", false, "Do not fail because something could not be read")
	return cmd
}
