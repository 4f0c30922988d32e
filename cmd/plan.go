package cmd

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func newPlan(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	var outputs outputFlags
	var allowGaps, askKubelet bool
	cmd := &cobra.Command{
		Use:   "plan [node/NAME ...]",
		Short: "Show what a freshly started attach/detach controller would do",
		Long: `plan rebuilds the attach/detach controller's actual and desired state of the
world and shows, for each volume and node, what a controller that has just
started would do in its first pass, and what ends each wait and when. It writes
nothing.

--kubelet adds the other half: what the kubelet of each node that is named would
do next with the volumes that it wants or still has. It rests on the objects, as
trace does, and works with -f. Live, each kubelet is also asked for its pods, its
metrics and, where the node allows that, its log. That takes the right to get
nodes/proxy, with which commands can be run in every pod of the node: few should
have it, and nothing else here needs it.`,
		Example: `  kubectl volume-doctor plan
  kubectl volume-doctor plan node/n1 -o wide
  kubectl volume-doctor plan node/n1 --kubelet
  kubectl volume-doctor plan -f snapshot.yaml -o json`,
		ValidArgsFunction: g.completeTargets(streams, 0, snapshot.Nodes),
		RunE: func(cmd *cobra.Command, args []string) error {
			if askKubelet && len(args) == 0 {
				return errors.New("--kubelet needs the nodes: name them, as in plan node/n1 --kubelet")
			}
			g.all = g.all || askKubelet // the kubelet has volumes that no other question needs
			targets, s, err := g.readTargets(cmd.Context(), streams, &outputs, args, snapshot.Nodes)
			if err != nil {
				return err
			}
			if err := g.remember(s, streams); err != nil {
				return err
			}
			world := reconcile.NewWorld(s, g.options())
			plan := world.Reconcile()
			nodes := each(targets, func(t target) types.NodeName { return types.NodeName(t.name.Name) })
			doc := output.NewPlan(s, world, plan, nodes)
			if askKubelet {
				if err := addKubelets(cmd.Context(), g, streams, facts.NewView(s, world, plan), nodes, doc); err != nil {
					return err
				}
			}
			if err := printTo(g, &outputs, streams.Out, doc, output.PlanFormats.Print); err != nil {
				return err
			}
			return exitWith(!doc.Complete && !allowGaps, false)
		},
	}
	outputs.add(cmd, output.PlanFormats.Names())
	g.addController(cmd)
	cmd.Flags().BoolVar(&allowGaps, "allow-gaps", false, "Do not fail because something could not be read")
	cmd.Flags().BoolVar(&askKubelet, "kubelet", false, "Also show what the kubelets of the nodes would do, and ask them (needs the right to get nodes/proxy)")
	return cmd
}

// addKubelets adds the kubelet's part of each node to the plan. In a cluster the kubelets are
// asked as well; from the bundle of -f their logs are read where it has them.
func addKubelets(ctx context.Context, g *globalFlags, streams genericiooptions.IOStreams, view *facts.View, nodes []types.NodeName, doc *output.Plan) error {
	for _, name := range nodes {
		var heard *trace.KubeletView
		if g.file == "" {
			c, err := g.connect(streams)
			if err != nil {
				return err
			}
			if heard, err = c.Kubelet(ctx, name); err != nil {
				return err
			}
			doc.Gaps = append(doc.Gaps, heard.Gaps...)
			doc.Complete = doc.Complete && len(heard.Gaps) == 0
		} else {
			var err error
			if heard, err = g.bundledKubelet(view.Snapshot, name); err != nil {
				return err
			}
		}
		doc.Kubelets = append(doc.Kubelets, kubelet.OfNode(view, name, heard))
	}
	return nil
}
