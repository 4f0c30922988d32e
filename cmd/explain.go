package cmd

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
)

func newExplain(streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [CODE or CHECK]",
		Short: "Explain a failure mode: symptom, evidence, look-alikes, repair, risk",
		Example: `  kubectl volume-doctor explain
  kubectl volume-doctor explain VD301
  kubectl volume-doctor explain inuse-not-attached`,
		Args: cobra.MaximumNArgs(1),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return checkNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return listChecks(streams.Out)
			}
			check, err := findCheck(args[0])
			if err != nil {
				return err
			}
			_, err = io.WriteString(streams.Out, check.Doc())
			return err
		},
	}
}

func listChecks(w io.Writer) error {
	for _, c := range diagnose.Checks() {
		if _, err := fmt.Fprintf(w, "%s  %-7s  %s\n       %s\n", c.Code, c.Severity, c.Name, c.Title); err != nil {
			return err
		}
	}
	return nil
}

// findCheck takes a code or a name, in any case.
func findCheck(name string) (diagnose.Check, error) {
	for _, c := range diagnose.Checks() {
		if strings.EqualFold(string(c.Code), name) || strings.EqualFold(c.Name, name) {
			return c, nil
		}
	}
	return diagnose.Check{}, fmt.Errorf("there is no check %q: \"kubectl volume-doctor explain\" lists them", name)
}

// selectChecks are all checks, or those named in only, without those in skip.
func selectChecks(only, skip []string) ([]diagnose.Check, error) {
	wanted, unwanted := map[diagnose.Code]bool{}, map[diagnose.Code]bool{}
	for _, name := range only {
		c, err := findCheck(name)
		if err != nil {
			return nil, err
		}
		wanted[c.Code] = true
	}
	for _, name := range skip {
		c, err := findCheck(name)
		if err != nil {
			return nil, err
		}
		unwanted[c.Code] = true
	}
	checks := []diagnose.Check{}
	for _, c := range diagnose.Checks() {
		if (len(wanted) == 0 || wanted[c.Code]) && !unwanted[c.Code] {
			checks = append(checks, c)
		}
	}
	if len(checks) == 0 {
		return nil, fmt.Errorf("--check and --skip leave no check to run")
	}
	return checks, nil
}

// checkNames completes checks: their names, with their titles as help.
func checkNames() []string {
	var names []string
	for _, c := range diagnose.Checks() {
		names = append(names, c.Name+"\t"+c.Title)
	}
	return names
}
