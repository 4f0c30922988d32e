package cmd

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

func newAuth(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "auth",
		Short: "Show the roles for reading and for each repair, and which of them you have",
		Long: `auth asks the API server which of volume-doctor's roles you have, and names the
rights that you lack. Each role holds what is really requested and no more; a
repair takes its own role beside the reader's. -o yaml prints the ClusterRoles,
without asking anybody.

Exit code: 0 you may read all that diagnose reads, 1 you may not, 2 no answer.`,
		Example: `  kubectl volume-doctor auth
  kubectl volume-doctor auth --as jane
  kubectl volume-doctor auth -o yaml | kubectl apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := g.validate(); err != nil {
				return err
			}
			roles := cluster.Roles()
			switch {
			case g.file != "":
				return errors.New("auth asks a cluster: it does not go with -f")
			case format == "yaml":
				return output.PrintClusterRoles(streams.Out, roles)
			case format != "table":
				return fmt.Errorf("unknown output format %q: use one of table, yaml", format)
			}
			c, err := g.connect(streams)
			if err != nil {
				return err
			}
			missing, err := c.Can(cmd.Context(), needs(roles))
			if err != nil {
				return err
			}
			if err := output.PrintRoles(streams.Out, roles, missing, g.shown(streams.Out)); err != nil {
				return err
			}
			return exitWith(false, slices.ContainsFunc(roles[0].Needs, func(p repair.Permission) bool { return slices.Contains(missing, p) }))
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "Output format: table, or yaml for the manifests of the ClusterRoles")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// needs are the rights of all roles, each once.
func needs(roles []repair.Role) []repair.Permission {
	var all []repair.Permission
	for _, role := range roles {
		for _, p := range role.Needs {
			if !slices.Contains(all, p) {
				all = append(all, p)
			}
		}
	}
	return all
}
