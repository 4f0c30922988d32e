// Package output prints reports and plans. Every format is a pure function of
// the document; none of them decides anything.
package output

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Options control how text is shown. The formats for machines ignore them.
type Options struct {
	// Color turns on colors for severities and verbs.
	Color bool
	// Width is the number of columns of the terminal, or 0 if the output is not a terminal. With 0,
	// no line is broken and nothing is cut.
	Width int
}

// formats are the formats of one kind of document, in the order in which the help text lists them.
type formats[D any] []struct {
	name  string
	print func(*strings.Builder, D, Options) error
}

// ReportFormats print a report.
var ReportFormats = formats[*finding.Report]{
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

// Names returns the names of the formats that Print accepts.
func (all formats[D]) Names() []string {
	names := make([]string, 0, len(all))
	for _, f := range all {
		names = append(names, f.name)
	}
	return names
}

// Print writes the document in the given format, which must be one of Names.
func (all formats[D]) Print(w io.Writer, format string, document D, opts Options) error {
	for _, f := range all {
		if f.name == format {
			var b strings.Builder
			if err := f.print(&b, document, opts); err != nil {
				return err
			}
			_, err := io.WriteString(w, b.String())
			return err
		}
	}
	return fmt.Errorf("unknown output format %q: use one of %s", format, strings.Join(all.Names(), ", "))
}

func printJSON[D any](b *strings.Builder, document D, _ Options) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	err := enc.Encode(document)
	if text := safetext.JSON(b.String()); text != b.String() {
		b.Reset()
		b.WriteString(text)
	}
	return err
}

func printYAML[D any](b *strings.Builder, document D, _ Options) error {
	data, err := snapshot.YAML(document)
	b.Write(data)
	return err
}

func printReportNames(b *strings.Builder, r *finding.Report, _ Options) error {
	var names []string
	for _, f := range r.Findings {
		names = append(names, strings.ToLower(f.Subject.Kind)+"/"+f.Subject.Name)
	}
	return printLines(b, slices.Compact(names))
}

func printLines(b *strings.Builder, lines []string) error {
	for _, line := range lines {
		fmt.Fprintln(b, Safe(line))
	}
	return nil
}
