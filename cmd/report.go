package cmd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
)

// withReport are the flags that go with --report: those of printing and of the
// exit code. The others say what to read or to do, and a saved report is done.
var withReport = []string{"report", "output", "color", "fail-on", "allow-gaps"}

// reprint prints a saved report, and ends with the exit code that it would have had.
type reprint struct {
	reportPrinter
	saved string
}

// mayReprint refuses arguments and flags that say what to read or to do.
func mayReprint(flags *pflag.FlagSet, args []string) error {
	if len(args) > 0 {
		return fmt.Errorf("--report prints a saved report as it is: %q cannot narrow it", args[0])
	}
	var other string
	flags.Visit(func(f *pflag.Flag) {
		if !slices.Contains(withReport, f.Name) {
			other = f.Name
		}
	})
	if other != "" {
		return fmt.Errorf("--report and --%s exclude each other: a saved report is printed as it is", other)
	}
	return nil
}

func (m *reprint) run(_ context.Context, streams genericiooptions.IOStreams) error {
	if err := m.validate(); err != nil {
		return err
	}
	r, err := readReport(m.saved, streams.In)
	if err != nil {
		return err
	}
	if distrust(r, cmp.Or(strings.TrimSuffix(m.saved, "-"), "standard input")) > 0 {
		fmt.Fprintf(streams.ErrOut, "note: what %s says to do, other than plain commands of kubectl, is left out\n", r.SavedIn)
	}
	return m.finish(streams, r, exitHealthy)
}

// distrust makes the report the word of the file, and leaves no command in it but those of
// kubectl, built again of their words. It returns how many commands and sentences it has
// taken out.
func distrust(r *finding.Report, file string) int {
	r.SavedIn = file
	all := 0
	for i := range r.Findings {
		f := &r.Findings[i]
		withheld := 0
		take := func(text *string, checked string) {
			if checked == "" && *text != "" {
				withheld++
			}
			*text = checked
		}
		commands := func(list []string) []string {
			kept := list[:0]
			for _, line := range list {
				if take(&line, safetext.Rebuilt(line)); line != "" {
					kept = append(kept, line)
				}
			}
			return kept
		}
		sentence := func(text *string) {
			if operators.MatchString(*text) {
				take(text, "")
			}
		}
		f.AdviceCommands = commands(f.AdviceCommands)
		sentence(&f.Advice)
		sentence(&f.Never)
		sentence(&f.SelfHeals.Because)
		f.Steps = slices.DeleteFunc(f.Steps, func(step finding.Step) bool {
			sentence(&step.Says)
			return step.Says == ""
		})
		if f.Repair != nil {
			f.Repair.Commands = commands(f.Repair.Commands)
			take(&f.Repair.Apply, safetext.Rebuilt(f.Repair.Apply))
			take(&f.Repair.ApplyAll, safetext.Rebuilt(f.Repair.ApplyAll))
			sentence(&f.Repair.BlockedBy)
			sentence(&f.Repair.SafeOnce)
			f.Repair.Needs = slices.DeleteFunc(f.Repair.Needs, func(need string) bool {
				sentence(&need)
				return need == ""
			})
		}
		f.Withheld = withheld
		all += withheld
	}
	return all
}

// operators are those of shells. No sentence of this program that says what to do has any.
var operators = regexp.MustCompile("[|`<>\\\\]|\\$[({]|&&|;;")

func readReport(name string, stdin io.Reader) (*finding.Report, error) {
	var data []byte
	var err error
	if name == "-" {
		name = "standard input"
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	r := &finding.Report{}
	if err := json.Unmarshal(data, r); err != nil {
		return nil, fmt.Errorf("%s is not a report as -o json writes it: %w", name, err)
	}
	if r.APIVersion != finding.APIVersion || r.Kind != "Report" {
		return nil, fmt.Errorf("%s is %q of %q, not a Report of %s", name, r.Kind, r.APIVersion, finding.APIVersion)
	}
	for _, f := range r.Findings {
		if !code.MatchString(string(f.Code)) || !word.MatchString(f.Check) || !slices.Contains(severities, f.Severity) {
			return nil, fmt.Errorf("%s has a finding of no check: %q %q, %q", name, f.Code, f.Check, f.Severity)
		}
		if f.Repair != nil && (!word.MatchString(f.Repair.Kind) || !word.MatchString(f.Repair.Risk)) {
			return nil, fmt.Errorf("%s has a repair of no kind: %q, risk %q", name, f.Repair.Kind, f.Repair.Risk)
		}
	}
	return r, nil
}

// A later release may know other checks and repairs than this one, but names them
// alike.
var (
	code       = regexp.MustCompile(`^VD[0-9]{3}$`)
	word       = regexp.MustCompile(`^[a-z0-9-]+$`)
	severities = []finding.Severity{finding.Error, finding.Warning, finding.Info}
)
