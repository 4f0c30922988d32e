package cmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func newTrace(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	var outputs outputFlags
	var askKubelet bool
	cmd := &cobra.Command{
		Use:   "trace NAME | pod/NAME",
		Short: "Follow a pod's volumes stage by stage, and say where they wait and on whom",
		Long: `trace follows each volume of a pod from scheduling to mounted: scheduled, claim
bound, in the node's volumesInUse, attached, in its volumesAttached, driver
registered, staged, mounted; and back again for a pod that ends. It says which
stage a volume waits in, on whom, since when and what ends the wait, and tells a
pod that waits for a volume from one that waits for its image, its network or its
init containers.

--kubelet also asks the kubelet of the pod's node for its pods, its metrics and,
where the node allows that, for what its log says has failed. It says where they
agree with the objects, and uses them where no object tells in which of two
stages a volume waits. That takes the right to get nodes/proxy, with which
commands can be run in every pod of the node: few should have it, and nothing
else here needs it.

Exit code: 0 the pod waits for no volume, 1 it waits for one (the verdict says
whether that is in flight or stuck), 2 no answer, or none from the kubelet with
--kubelet.`,
		Example: `  kubectl volume-doctor trace pod/web-0 -n shop
  kubectl volume-doctor trace pod/web-0 -n shop --kubelet
  kubectl volume-doctor trace -f snapshot.yaml pod/web-0 -o wide`,
		Args:              exactlyOne(snapshot.Pods),
		ValidArgsFunction: g.completeTargets(streams, 1, snapshot.Pods),
		RunE: func(cmd *cobra.Command, args []string) error {
			if askKubelet && g.file != "" {
				return errors.New("--kubelet asks a kubelet: it does not go with -f")
			}
			targets, s, err := g.readTargets(cmd.Context(), streams, &outputs, args, snapshot.Pods)
			if err != nil {
				return err
			}
			pod := s.Pod(targets[0].name)
			var heard *trace.KubeletView
			if askKubelet {
				if heard, err = kubeletOf(cmd.Context(), g, streams, pod); err != nil {
					return err
				}
			}
			view := repair.Look(s, diagnose.Options{Reconcile: g.options(), Checks: diagnose.ChecksOfTrace()}, repair.Consent{})
			repair.Propose(view)
			sayApply(view.Report, takenOver(cmd.Flags()))
			doc := trace.OfPod(view.Facts, pod, heard)
			doc.AddFindings(view.Report)
			if err := printTo(g, &outputs, streams.Out, doc, output.TraceFormats.Print); err != nil {
				return err
			}
			unheard := askKubelet && doc.Node != "" && !doc.KubeletAnswered()
			return exitWith(unheard || doc.Verdict.State == finding.Unsure, doc.Verdict.State != finding.NoWait)
		},
	}
	outputs.add(cmd, output.TraceFormats.Names())
	cmd.Flags().BoolVar(&askKubelet, "kubelet", false, "Also ask the kubelet of the pod's node (needs the right to get nodes/proxy)")
	return cmd
}

// kubeletOf is what the kubelet of the pod's node says; nil where it has none.
func kubeletOf(ctx context.Context, g *globalFlags, streams genericiooptions.IOStreams, pod *corev1.Pod) (*trace.KubeletView, error) {
	if pod.Spec.NodeName == "" {
		fmt.Fprintln(streams.ErrOut, "warning: the pod has no node, and so no kubelet that could be asked")
		return nil, nil
	}
	c, err := g.connect(streams)
	if err != nil {
		return nil, err
	}
	return c.Kubelet(ctx, types.NodeName(pod.Spec.NodeName))
}
