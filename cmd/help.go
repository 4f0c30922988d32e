package cmd

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"
)

// setHelp shortens the help of each command: the flags of every command, and those that go
// with --apply or choose among many clusters, are listed by the options command instead.
func setHelp(root *cobra.Command) {
	root.SetUsageFunc(func(cmd *cobra.Command) error {
		_, err := io.WriteString(cmd.OutOrStdout(), usageOf(cmd))
		return err
	})
}

func usageOf(cmd *cobra.Command) string {
	var b strings.Builder
	b.WriteString("Usage:\n")
	if cmd.Runnable() && (cmd.HasParent() || !cmd.HasAvailableSubCommands()) {
		fmt.Fprintf(&b, "  %s\n", cmd.UseLine())
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s COMMAND [flags]\n\nCommands:\n", cmd.CommandPath())
		for _, c := range cmd.Commands() {
			if c.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-10s  %s\n", c.Name(), c.Short)
			}
		}
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	repairs := cmd.Flags().Lookup("apply") != nil
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		elsewhere := repairs && (slices.Contains(applyOnly, f.Name) || slices.Contains(fleetOnly, f.Name))
		if f.Name != "help" && f.Name != "version" && !elsewhere {
			own.AddFlag(f)
		}
	})
	if own.HasFlags() {
		fmt.Fprintf(&b, "\nFlags:\n%s", own.FlagUsages())
	}
	more := "the flags of every command"
	if repairs {
		more = "those that go with --apply or are for many clusters, and " + more
	}
	fmt.Fprintf(&b, "\n\"%s options\" lists %s.\n", displayName, more)
	return b.String()
}

// newOptions lists the flags that the help of the commands leaves out.
func newOptions(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "options",
		Short: "List the flags of every command, and those for --apply and many clusters",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var diagnose cobra.Command
			new(applyFlags).add(diagnose.Flags())
			new(fleetFlags).add(&diagnose)
			usages := func(names []string) string {
				chosen := pflag.NewFlagSet("", pflag.ContinueOnError)
				for _, name := range names {
					chosen.AddFlag(diagnose.Flags().Lookup(name))
				}
				return chosen.FlagUsages()
			}
			_, err := fmt.Fprintf(streams.Out, "Flags of every command that reads a cluster or a file:\n%s\nFlags that go with diagnose --apply:\n%s\nFlags of diagnose for many clusters, beside --contexts:\n%s",
				cmd.Root().PersistentFlags().FlagUsages(), usages(applyOnly), usages(fleetOnly))
			return err
		},
	}
}
