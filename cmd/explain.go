package cmd

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/explain"
)

func newExplain(g *globalFlags, streams genericiooptions.IOStreams) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [CODE, CHECK, REPAIR or WORDS]",
		Short: "Explain a failure mode, a repair, or why some advice does harm",
		Long: `explain shows the page of a failure mode (symptom, evidence, look-alikes, repair,
risk), of a kind of repair (what it writes, its guards, how it is undone), or of
advice that does harm, and what a driver or a tool of the node says; "drivers" lists
these. Without an argument it lists all others. Words that name none may
be a line of an event or of a driver's log, - for standard input: explain says what
they mean, who has to act and what helps, and shows the pages that are nearest.`,
		Example: `  kubectl volume-doctor explain
  kubectl volume-doctor explain VD301
  kubectl volume-doctor explain strip-finalizer
  kubectl volume-doctor explain ebs.csi.aws.com
  kubectl volume-doctor explain timed out waiting for the condition
  kubectl get events -n shop | grep web-0 | kubectl volume-doctor explain -
  kubectl volume-doctor explain 'rpc error: code = Internal desc = rbd image pool/csi-vol-1 is still being used'`,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			switch {
			case len(args) > 0:
				return nil, cobra.ShellCompDirectiveNoFileComp
			case codeBegun(word):
				return completeChecks(cmd, args, word)
			}
			return each(explain.Pages(), func(p explain.Page) string { return p.Name + "\t" + p.Title }), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return explain.Contents(streams.Out)
			}
			words := strings.Join(args, " ")
			if words == "-" {
				text, err := io.ReadAll(io.LimitReader(streams.In, mostPasted))
				if err != nil {
					return fmt.Errorf("read standard input: %w", err)
				}
				words = strings.TrimSpace(string(text))
			}
			if strings.TrimSpace(words) == "" {
				return errors.New("nothing was given to look for: a code, a name, or the words of an error")
			}
			if p, ok := explain.Named(words); ok {
				return g.showPage(cmd.Context(), streams.Out, p.Text)
			}
			if text, ok := explain.Said(words); ok {
				return g.showPage(cmd.Context(), streams.Out, text)
			}
			return explain.Words(streams.Out, words)
		},
	}
}

// mostPasted is the most that is read from standard input, in bytes.
const mostPasted = 1 << 20

// findCheck returns the check with a code or a name, in any case.
func findCheck(name string) (check.Check, error) {
	for _, c := range diagnose.Checks() {
		if strings.EqualFold(string(c.Code), name) || strings.EqualFold(c.Name, name) {
			return c, nil
		}
	}
	names := each(diagnose.Checks(), func(c check.Check) string { return c.Name })
	return check.Check{}, fmt.Errorf("there is no check %q: \"kubectl volume-doctor explain\" lists them%s", name, didYouMean(name, names))
}

// selectChecks are all checks, or those named in only, without those in skip.
func selectChecks(only, skip []string) ([]check.Check, error) {
	var codes []finding.Code // of only, followed by those of skip
	for _, name := range slices.Concat(only, skip) {
		c, err := findCheck(name)
		if err != nil {
			return nil, err
		}
		codes = append(codes, c.Code)
	}
	wanted, unwanted := codes[:len(only)], codes[len(only):]
	checks := slices.DeleteFunc(diagnose.Checks(), func(c check.Check) bool {
		return len(wanted) > 0 && !slices.Contains(wanted, c.Code) || slices.Contains(unwanted, c.Code)
	})
	if len(checks) == 0 {
		return nil, fmt.Errorf("--check and --skip leave no check to run")
	}
	return checks, nil
}

// checkNames completes checks: their names, with their titles as help.
func checkNames() []string {
	return each(diagnose.Checks(), func(c check.Check) string { return c.Name + "\t" + c.Title })
}

// codeBegun reports whether the word may be the beginning of a code.
func codeBegun(word string) bool {
	return word != "" && (strings.HasPrefix("VD", strings.ToUpper(word)) || strings.HasPrefix(strings.ToUpper(word), "VD"))
}

// completeChecks completes the last of a list of checks: its code if the word begins like
// one, and else its name.
func completeChecks(_ *cobra.Command, _ []string, word string) ([]cobra.Completion, cobra.ShellCompDirective) {
	at := strings.LastIndex(word, ",") + 1
	before, begin := word[:at], word[at:]
	names := checkNames()
	if codeBegun(begin) {
		names = append(each(diagnose.Checks(), func(c check.Check) string { return string(c.Code) + "\t" + c.Title }), names...)
	}
	names = slices.DeleteFunc(names, func(name string) bool {
		return len(name) < len(begin) || !strings.EqualFold(name[:len(begin)], begin)
	})
	return each(names, func(name string) string { return before + name }), cobra.ShellCompDirectiveNoFileComp
}
