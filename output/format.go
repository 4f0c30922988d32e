// Package output prints reports and plans. Every format is a pure function of
// the document; none of them decides anything.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"sigs.k8s.io/yaml"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
)

// Options say how text is shown. Formats for machines ignore them.
type Options struct {
	// Color paints severities and verbs.
	Color bool
	// Apply is the command line that would make the proposed repairs; "" where
	// nothing can be applied, as for a file.
	Apply string
}

// reportFormats are the formats of a report, in the order in which help lists
// them.
var reportFormats = []struct {
	name  string
	print func(io.Writer, *diagnose.Report, Options) error
}{
	{"table", printReportTable},
	{"wide", printReportWide},
	{"tree", printReportTree},
	{"json", func(w io.Writer, r *diagnose.Report, _ Options) error { return printJSON(w, r) }},
	{"yaml", func(w io.Writer, r *diagnose.Report, _ Options) error { return printYAML(w, r) }},
	{"name", func(w io.Writer, r *diagnose.Report, _ Options) error { return printReportNames(w, r) }},
	{"sarif", printSARIF},
	{"junit", printJUnit},
	{"markdown", printMarkdown},
	{"html", printHTML},
	{"prometheus", printPrometheus},
}

var planFormats = []struct {
	name  string
	print func(io.Writer, *Plan, Options) error
}{
	{"table", func(w io.Writer, p *Plan, o Options) error { return printPlanTable(w, p, o, false) }},
	{"wide", func(w io.Writer, p *Plan, o Options) error { return printPlanTable(w, p, o, true) }},
	{"tree", printPlanTree},
	{"json", func(w io.Writer, p *Plan, _ Options) error { return printJSON(w, p) }},
	{"yaml", func(w io.Writer, p *Plan, _ Options) error { return printYAML(w, p) }},
	{"name", func(w io.Writer, p *Plan, _ Options) error { return printPlanNames(w, p) }},
}

// ReportFormats are the names that PrintReport takes.
func ReportFormats() []string {
	names := make([]string, 0, len(reportFormats))
	for _, f := range reportFormats {
		names = append(names, f.name)
	}
	return names
}

// PlanFormats are the names that PrintPlan takes.
func PlanFormats() []string {
	names := make([]string, 0, len(planFormats))
	for _, f := range planFormats {
		names = append(names, f.name)
	}
	return names
}

// PrintReport writes the report in the format, which must be one of
// ReportFormats.
func PrintReport(w io.Writer, format string, r *diagnose.Report, opts Options) error {
	for _, f := range reportFormats {
		if f.name == format {
			return f.print(w, r, opts)
		}
	}
	return unknownFormat(format, ReportFormats())
}

// PrintPlan writes the plan in the format, which must be one of PlanFormats.
func PrintPlan(w io.Writer, format string, p *Plan, opts Options) error {
	for _, f := range planFormats {
		if f.name == format {
			return f.print(w, p, opts)
		}
	}
	return unknownFormat(format, PlanFormats())
}

func unknownFormat(format string, known []string) error {
	return fmt.Errorf("unknown output format %q: use one of %s", format, strings.Join(known, ", "))
}

func printJSON(w io.Writer, document any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(document); err != nil {
		return err
	}
	_, err := io.WriteString(w, escapeJSON(b.String()))
	return err
}

func printYAML(w io.Writer, document any) error {
	data, err := json.Marshal(document)
	if err != nil {
		return err
	}
	data, err = yaml.JSONToYAML([]byte(escapeJSON(string(data))))
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// escapeJSON escapes what JSON may hold as it is, but would steer a terminal or
// be refused by a reader of YAML. Beyond the first plane nothing does either.
func escapeJSON(text string) string {
	var b strings.Builder
	for _, r := range text {
		if r >= 0x7f && r <= 0xffff && !unicode.IsPrint(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func printReportNames(w io.Writer, r *diagnose.Report) error {
	var names []string
	for _, f := range r.Findings {
		names = append(names, strings.ToLower(f.Subject.Kind)+"/"+f.Subject.Name)
	}
	return printLines(w, slices.Compact(names))
}

func printLines(w io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(w, Safe(line)); err != nil {
			return err
		}
	}
	return nil
}
