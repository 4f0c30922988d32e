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
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func newTrace(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	var outputs outputFlags
	var allowGaps, askKubelet bool
	cmd := &cobra.Command{
		Use:   "trace pod/NAME | pvc/NAME | pv/NAME ...",
		Short: "Follow a pod's volumes stage by stage, or say who uses a claim and where it is",
		Long: `trace follows each volume of a pod from scheduling to mounted: scheduled, claim
bound, in the node's volumesInUse, attached, in its volumesAttached, driver
registered, staged, mounted; and back again for a pod that ends. It says which
stage a volume waits in, on whom, since when and what ends the wait, and tells a
pod that waits for a volume from one that waits for its image, its network or its
init containers.

Of a claim or a volume it says which pods name it and what they do, on which nodes
it is attached, since when and by which VolumeAttachment, where it is mounted, and
what keeps the claim and the volume, also where all is well. -o name prints its pods.

A name alone is a pod's. --kubelet also asks the kubelet of the pod's node for its
pods, its metrics and, where the node allows that, for what its log says has failed.
It says where they agree with the objects, and uses them where no object tells in
which of two stages a volume waits. That takes the right to get nodes/proxy, with
which commands can be run in every pod of the node: few should have it, and nothing
else here needs it.

Exit code: 0 nothing waits for the volumes, 1 something does (the verdict says
whether that is in flight or stuck), or a check found something wrong with the pod, the
claim or the volume, 2 no answer, or none from the kubelet with --kubelet, or nothing found
where not everything could be read (--allow-gaps lets such a gap pass).`,
		Example: `  kubectl volume-doctor trace pod/web-0 -n shop
  kubectl volume-doctor trace pvc/data-web-0 -n shop -o json
  kubectl volume-doctor trace pod/web-0 -n shop --kubelet
  kubectl volume-doctor trace -f snapshot.yaml pv/pv-1 -o wide`,
		Args:              atLeastOne("pods, claims and volumes"),
		ValidArgsFunction: g.completeTargets(streams, 0, traceable...),
		RunE: func(cmd *cobra.Command, args []string) error {
			targets, s, err := g.readTargets(cmd.Context(), streams, &outputs, args, traceable...)
			if err != nil {
				return err
			}
			var heard *trace.KubeletView
			if askKubelet {
				if len(targets) > 1 || targets[0].kind != snapshot.Pods {
					return errors.New("--kubelet asks the kubelet of one pod's node: name one pod")
				}
				if heard, err = kubeletOf(cmd.Context(), g, streams, s, s.Pod(targets[0].name)); err != nil {
					return err
				}
			}
			view, _ := repair.Examine(s, g.options(), repair.Consent{}, diagnose.Request{Settings: takenOver(cmd.Flags()), File: g.file})
			documents := each(targets, func(t target) trace.Document { return traceOf(view, t, heard) })
			if err := printTo(g, &outputs, streams.Out, documents, output.TraceFormats.Print); err != nil {
				return err
			}
			incomplete, found := false, false
			for _, d := range documents {
				unknown, wrong := d.Found(allowGaps)
				incomplete, found = incomplete || unknown, found || wrong
				if t, ok := d.(*trace.Trace); ok && askKubelet {
					incomplete = incomplete || g.file == "" && t.Node != "" && !t.KubeletAnswered()
				}
			}
			return exitWith(incomplete, found)
		},
	}
	outputs.add(cmd, output.TraceFormats.Names())
	cmd.Flags().BoolVar(&allowGaps, "allow-gaps", false, "Do not fail because something could not be read")
	cmd.Flags().BoolVar(&askKubelet, "kubelet", false, "Also ask the kubelet of the pod's node (needs the right to get nodes/proxy)")
	return cmd
}

// traceable are the kinds that trace accepts; a name alone is of the first.
var traceable = []snapshot.Kind{snapshot.Pods, snapshot.Claims, snapshot.Volumes}

// traceOf is the trace of one target, which must exist.
func traceOf(view *repair.View, t target, heard *trace.KubeletView) trace.Document {
	switch t.kind {
	case snapshot.Claims:
		return trace.OfClaim(view.Facts, view.Report, view.Snapshot.Claim(t.name))
	case snapshot.Volumes:
		return trace.OfVolume(view.Facts, view.Report, view.Snapshot.Volume(t.name.Name))
	default:
		doc := trace.OfPod(view.Facts, view.Snapshot.Pod(t.name), heard)
		diagnose.AddFindings(view.Facts, view.Report, doc)
		return doc.Known()
	}
}

// kubeletOf is what the kubelet of the pod's node reports; nil where the pod has no node.
func kubeletOf(ctx context.Context, g *globalFlags, streams genericiooptions.IOStreams, s *snapshot.Snapshot, pod *corev1.Pod) (*trace.KubeletView, error) {
	if pod.Spec.NodeName == "" {
		fmt.Fprintln(streams.ErrOut, "warning: the pod has no node, and so no kubelet that could be asked")
		return nil, nil
	}
	node := types.NodeName(pod.Spec.NodeName)
	if g.file != "" {
		heard, err := g.bundledKubelet(s, node)
		if err == nil && heard == nil {
			err = fmt.Errorf("--kubelet asks a kubelet, or reads its log in the bundle of -f: there is none of node %s", node)
		}
		return heard, err
	}
	c, err := g.connect(streams)
	if err != nil {
		return nil, err
	}
	return c.Kubelet(ctx, node)
}
