package cmd

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func newSnapshot(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	var allowGaps bool
	cmd := &cobra.Command{
		Use:   "snapshot [FILE]",
		Short: "Write what diagnose would read to a file that is safe to attach to a ticket",
		Long: `snapshot writes the objects that diagnose reads to FILE, or to standard output.
Environment variables, arguments, secrets and managed fields are left out. A
FILE that ends in .gz is compressed. With -f it trims another file.

Somebody without the plug-in can send the folder in which the following line was run:
a file for each kind, of which an empty one proves that there are none. -f reads it as
well, but nothing has been left out of it, not even environment variables:

  ` + withoutPlugin(),
		Example: `  kubectl volume-doctor snapshot case.yaml.gz
  kubectl volume-doctor diagnose -f case.yaml.gz`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := g.validate(); err != nil {
				return err
			}
			if err := g.readBackends(streams.In); err != nil {
				return err
			}
			g.all = true
			if g.file == "" && g.controller != controllerAuto { // whose counts are held against the pods
				g.spool = &snapshot.Spool{}
			}
			s, err := g.read(cmd.Context(), streams)
			if err != nil {
				return err
			}
			if err := g.remember(s, streams); err != nil {
				return err
			}
			s.Backends = g.sayBackends(s, streams)
			if err := save(cmd.Context(), s, g.spool, args, streams.Out); err != nil {
				return err
			}
			for _, gap := range s.Gaps {
				fmt.Fprintf(streams.ErrOut, "warning: %s could not be read (%s): the snapshot says so\n", gap.Kind, gap.Reason)
			}
			return exitWith(len(s.Gaps) > 0 && !allowGaps, false)
		},
	}
	g.addController(cmd)
	g.addBackend(cmd)
	cmd.Flags().BoolVar(&allowGaps, "allow-gaps", false, "Do not fail because something could not be read")
	return cmd
}

// withoutPlugin is the line that writes what diagnose reads, a file for each kind: kubectl
// prints an empty list of several kinds without their names.
func withoutPlugin() string {
	kinds := each(snapshot.Kinds(), func(kind snapshot.Kind) string { return string(kind) })
	return "for kind in " + strings.Join(kinds, " ") + "; do kubectl get $kind -A -o yaml >$kind.yaml; done"
}

func save(ctx context.Context, s *snapshot.Snapshot, pods *snapshot.Spool, args []string, stdout io.Writer) error {
	if len(args) == 0 || args[0] == "-" {
		return snapshot.WriteSpooled(stdout, s, pods, false)
	}
	return writeFile(ctx, args[0], func(w io.Writer) error {
		return snapshot.WriteSpooled(w, s, pods, strings.HasSuffix(args[0], ".gz"))
	})
}
