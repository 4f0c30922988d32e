package cmd

import (
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func newPreflight(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	var outputs outputFlags
	cmd := &cobra.Command{
		Use:   "preflight NAME | node/NAME",
		Short: "Show what would hang if the node were drained or lost now",
		Long: `preflight looks ahead: which pods of the node would wait for a volume, and how
long by the default timers, if the node were drained, and if it were lost; which
volumes would not leave it in their time, and why; which pods nobody would
recreate; and whether the other nodes have room for the volumes. It changes nothing.

It looks at volumes alone. A PodDisruptionBudget may hold up the drain, and a
node with room for a volume may not suit its pod: affinity, node selectors,
taints, CPU and memory are not examined.

Exit code: 0 nothing would hang beyond what the timers say, 1 something would,
2 no answer, or nothing would hang as far as was read.`,
		Example: `  kubectl volume-doctor preflight node/n1
  kubectl volume-doctor preflight -f snapshot.yaml node/n1 -o wide
  kubectl volume-doctor preflight upgrade --to 1.37`,
		Args:              exactlyOne(snapshot.Nodes),
		ValidArgsFunction: g.completeTargets(streams, 1, snapshot.Nodes),
		RunE: func(cmd *cobra.Command, args []string) error {
			targets, s, err := g.readTargets(cmd.Context(), streams, &outputs, args, snapshot.Nodes)
			if err != nil {
				return err
			}
			doc := diagnose.PreflightNode(s, types.NodeName(targets[0].name.Name), diagnose.Options{Reconcile: g.options()})
			if err := printTo(g, &outputs, streams.Out, doc, output.PreflightFormats.Print); err != nil {
				return err
			}
			return exitWith(doc.Incomplete(), doc.Hangs() || len(doc.Deletes) > 0)
		},
	}
	outputs.add(cmd, output.PreflightFormats.Names())
	cmd.AddCommand(newPreflightUpgrade(g, streams))
	return cmd
}
