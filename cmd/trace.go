package cmd

import (
	"io"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func newTrace(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	var outputs outputFlags
	cmd := &cobra.Command{
		Use:   "trace pod/NAME",
		Short: "Follow a pod's volumes stage by stage, and say where they wait and on whom",
		Long: `trace follows each volume of a pod from scheduling to mounted: scheduled, claim
bound, asked for by the kubelet, attached, listed, driver registered, staged,
mounted; and back again for a pod that ends. It says which stage a volume waits
in, on whom, since when and what ends the wait, and tells a pod that waits for a
volume from one that waits for its image, its network or its init containers.

Exit code: 0 the pod waits for no volume, 1 it waits for one (the verdict says
whether that is in flight or stuck), 2 no answer.`,
		Example: `  kubectl volume-doctor trace pod/web-0 -n shop
  kubectl volume-doctor trace -f snapshot.yaml pod/web-0 -o wide`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := g.validate(); err != nil {
				return err
			}
			if err := outputs.validate(); err != nil {
				return err
			}
			namespace, err := g.namespace()
			if err != nil {
				return err
			}
			targets, err := parseTargets(args, namespace, snapshot.Pods)
			if err != nil {
				return err
			}
			s, err := g.read(cmd.Context(), streams)
			if err != nil {
				return err
			}
			if err := targets[0].mustExist(s); err != nil {
				return err
			}
			doc := diagnose.TracePod(s, s.Pod(targets[0].name), diagnose.Options{Reconcile: g.options()})
			err = outputs.print(streams.Out, func(w io.Writer, format string) error {
				return output.PrintTrace(w, format, doc, output.Options{Color: g.paints(w)})
			})
			if err != nil {
				return err
			}
			switch doc.Verdict.State {
			case diagnose.TraceNoWait:
				return nil
			case diagnose.TraceUnsure:
				return exitCode(exitNoAnswer)
			default:
				return exitCode(exitFindings)
			}
		},
	}
	outputs.add(cmd, output.TraceFormats())
	return cmd
}
