package cmd

import (
	"bytes"
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
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// withReport are the flags that go with --report: those for printing and for the exit code.
// All others say what to read or to do, and a saved report needs neither.
var withReport = []string{"report", "output", "color", "fail-on", "allow-gaps"}

// reprint prints a saved report, and ends with the same exit code as the run that saved it.
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
	data, err := readSaved(m.saved, streams.In)
	if err != nil {
		return err
	}
	name := sayInput(m.saved)
	saved, err := readReport(name, data)
	if err != nil {
		return err
	}
	told, err := distrusted(name, data)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(told.Findings, func(f finding.Finding) bool { return f.Withheld > 0 }) {
		fmt.Fprintf(streams.ErrOut, "note: what %s says to do, other than commands that a check may advise, is left out\n", name)
	}
	if slices.ContainsFunc(told.Findings, func(f finding.Finding) bool { return f.Unaimed }) {
		fmt.Fprintf(streams.ErrOut, "note: the commands name no cluster, as the word of %s on that is left out: they run on that of your current context\n", name)
	}
	err = m.outputs.print(streams.Out, func(w io.Writer, format string) error {
		r := told
		if format == "json" || format == "yaml" { // programs read what was saved
			r = saved
		}
		return output.ReportFormats.Print(w, format, r, m.shown(w))
	})
	if err != nil {
		return err
	}
	return m.verdict(saved)
}

// distrusted is the report from a file that is not trusted, for people. None of its texts has
// a command that no check advises, chooses the cluster for a command, or makes this program
// write.
func distrusted(file string, data []byte) (*finding.Report, error) {
	var saved any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	if err := decoder.Decode(&saved); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	data, err := json.Marshal(withoutOrders(saved))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	r, err := readReport(file, data)
	if err != nil {
		return nil, err
	}
	r.SavedIn = file
	for i := range r.Findings {
		distrust(&r.Findings[i])
	}
	return r, nil
}

// commandFields are the fields of command lines, which distrust judges.
var commandFields = []string{"adviceCommands", "commands", "apply", "applyAll", "needs"}

// withoutOrders is the JSON value with each text passed through proseOf.
func withoutOrders(value any) any {
	switch v := value.(type) {
	case string:
		prose := proseOf(v)
		return prose
	case []any:
		for i := range v {
			v[i] = withoutOrders(v[i])
		}
	case map[string]any:
		made := make(map[string]any, len(v))
		for name, inner := range v {
			// encoding/json matches fields the same way
			if !slices.ContainsFunc(commandFields, func(field string) bool { return strings.EqualFold(field, name) }) {
				inner = withoutOrders(inner)
			}
			name = proseOf(name)
			made[name] = inner
		}
		return made
	}
	return value
}

// distrust removes from a saved finding the instructions that it must not give, and counts
// them.
func distrust(f *finding.Finding) {
	f.Actions = nil // they are made again from the rest
	commands := func(list []string) []string {
		var kept []string
		for _, line := range list {
			command, unaimed := plain(line)
			f.Unaimed = f.Unaimed || unaimed
			if command == "" {
				f.Withheld++
				continue
			}
			kept = append(kept, command)
		}
		return kept
	}
	sentence := func(text *string) {
		if operators.MatchString(*text) {
			f.Withheld++
			*text = ""
		}
		f.Withheld += strings.Count(*text, isLeftOut)
	}
	f.AdviceCommands = commands(f.AdviceCommands)
	sentence(&f.Advice)
	sentence(&f.Never)
	sentence(&f.SelfHeals.Because)
	f.Steps = slices.DeleteFunc(f.Steps, func(step finding.Step) bool {
		sentence(&step.Says)
		return step.Says == ""
	})
	if f.Repair == nil {
		return
	}
	f.Repair.Commands = commands(f.Repair.Commands)
	sentence(&f.Repair.BlockedBy)
	sentence(&f.Repair.SafeOnce)
	sentence(&f.Repair.Does)
	f.Repair.Needs = slices.DeleteFunc(f.Repair.Needs, func(need string) bool {
		if gives.MatchString(need) {
			return false
		}
		f.Withheld++
		return true
	})
	// To repair it, this program has to look itself.
	look := ""
	if f.Repair.Apply != "" || f.Repair.ApplyAll != "" {
		look, _ = plain(safetext.Kubectl(append([]string{"volume-doctor", "diagnose"}, repair.PointedAt(*f)...)...))
	}
	f.Repair.Apply, f.Repair.ApplyAll = look, ""
}

// gives matches a flag with which the user gives the consent that a repair asks for.
var gives = regexp.MustCompile(`^--(?:fenced|detached|allow)=[A-Za-z0-9][-A-Za-z0-9._]*$`)

// operators matches the shells' operators. No instruction of this program has any.
var operators = regexp.MustCompile("[|`<>\\\\]|\\$[({]|&&|;;")

// sayInput names a file as an error does.
func sayInput(name string) string {
	if name == "-" {
		return "standard input"
	}
	return name
}

// readSaved reads the file, or standard input for "-".
func readSaved(name string, stdin io.Reader) (data []byte, err error) {
	if name == "-" {
		data, err = io.ReadAll(stdin)
	} else {
		data, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read the report: %w", err)
	}
	return data, nil
}

// readReport decodes a report that -o json has written.
func readReport(name string, data []byte) (*finding.Report, error) {
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
