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

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Options say how text is shown. Formats for machines ignore them.
type Options struct {
	// Color paints severities and verbs.
	Color bool
	// Width is how many columns the terminal has that the text goes to; 0 where it
	// goes to none. Lines are then not broken, and nothing is cut.
	Width int
}

// formats are the ways to print a kind of document, in the order in which help
// lists them.
type formats[D any] []struct {
	name  string
	print func(io.Writer, D, Options) error
}

var reportFormats = formats[*finding.Report]{
	{"table", printReportTable},
	{"wide", printReportWide},
	{"tree", printReportTree},
	{"json", printJSON[*finding.Report]},
	{"yaml", printYAML[*finding.Report]},
	{"name", printReportNames},
	{"sarif", printSARIF},
	{"junit", printJUnit},
	{"markdown", printMarkdown},
	{"html", printHTML},
	{"prometheus", printPrometheus},
}

// ReportFormats are the names that PrintReport takes.
func ReportFormats() []string { return reportFormats.names() }

// PrintReport writes the report in the format, which must be one of
// ReportFormats.
func PrintReport(w io.Writer, format string, r *finding.Report, opts Options) error {
	return reportFormats.write(w, format, r, opts)
}

func (all formats[D]) names() []string {
	names := make([]string, 0, len(all))
	for _, f := range all {
		names = append(names, f.name)
	}
	return names
}

func (all formats[D]) write(w io.Writer, format string, document D, opts Options) error {
	for _, f := range all {
		if f.name == format {
			return f.print(w, document, opts)
		}
	}
	return fmt.Errorf("unknown output format %q: use one of %s", format, strings.Join(all.names(), ", "))
}

func printJSON[D any](w io.Writer, document D, _ Options) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(document); err != nil {
		return err
	}
	_, err := io.WriteString(w, safetext.JSON(b.String()))
	return err
}

func printYAML[D any](w io.Writer, document D, _ Options) error {
	data, err := snapshot.YAML(document)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

func printReportNames(w io.Writer, r *finding.Report, _ Options) error {
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
