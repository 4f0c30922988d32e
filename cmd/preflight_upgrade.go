package cmd

import (
	"cmp"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

func newPreflightUpgrade(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	var outputs outputFlags
	var to string
	cmd := &cobra.Command{
		Use:   "upgrade --to RELEASE",
		Short: "Show what would change, and which pods would hang, under another release",
		Long: `preflight upgrade holds the attach/detach controller of another release against the
one at work, on the same objects: which decisions differ, which pods would hang or
wait longer, what the restart makes the controller forget, what the newer controller
does otherwise, and which known bugs come or go. To 1.37 it also tells which pods cannot share a volume on a node that enforces
SELinux. It writes nothing.

Exit code: 0 no pod would wait longer or may lose its volume, 1 a pod would or may,
2 no answer.`,
		Example: `  kubectl volume-doctor preflight upgrade --to 1.37
  kubectl volume-doctor preflight upgrade --to 1.31 -f snapshot.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := cmp.Or(g.validate(), outputs.validate(), mayUpgradeTo(to)); err != nil {
				return err
			}
			s, err := g.read(cmd.Context(), streams)
			if err != nil {
				return err
			}
			if !reconcile.IsRelease(s.Source.ServerVersion) {
				return fmt.Errorf("the release at work is not known: give it with --kubernetes-version")
			}
			doc := preflight.OfUpgrade(s, to, g.options())
			if err := printTo(g, &outputs, streams.Out, doc, output.UpgradeFormats.Print); err != nil {
				return err
			}
			return exitWith(len(doc.Missing) > 0, doc.Hangs())
		},
	}
	outputs.add(cmd, output.UpgradeFormats.Names())
	cmd.Flags().StringVar(&to, "to", "", "The release to upgrade to, as in 1.37")
	return cmd
}

// mayUpgradeTo fails for a release that the model does not know.
func mayUpgradeTo(release string) error {
	switch {
	case release == "":
		return fmt.Errorf("--to names the release to upgrade to, as in --to %s", reconcile.NewestModelled)
	case !reconcile.IsRelease(release):
		return fmt.Errorf("--to %q is not a release: write it as 1.37 or v1.36.3", release)
	case reconcile.TooOld(release), reconcile.TooNew(release):
		return fmt.Errorf("--to %s: the model knows %s to %s", release, reconcile.OldestModelled, reconcile.NewestModelled)
	default:
		return nil
	}
}
