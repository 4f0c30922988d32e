package output

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/clipperhouse/displaywidth"
	"github.com/fatih/color"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// Parts are the pieces of the report for people. Each piece ends with a line break, and a blank
// line stands between two pieces.
type Parts struct {
	// Heading is "" if nothing was found.
	Heading string
	// Causes has one text for each finding that follows from no other finding, the worst first. A
	// cause that several clusters share has one text.
	Causes []string
	// Closing is the summary, and what was not examined.
	Closing string
}

// PartsOf tells each cause in full, except for the proof, which only -o wide shows.
func PartsOf(r *finding.Report, opts Options) Parts {
	var p Parts
	var b strings.Builder
	taken := func() string {
		defer b.Reset()
		return b.String()
	}
	if len(r.Findings) > 0 {
		heading(&b, r, opts)
		p.Heading = taken()
	}
	for _, c := range r.Causes() {
		cause(&b, tellShared(r, c), opts)
		p.Causes = append(p.Causes, taken())
	}
	closing(&b, r, fewChecks, opts)
	p.Closing = taken()
	return p
}

func printReportTable(b *strings.Builder, r *finding.Report, opts Options) error {
	p := PartsOf(r, opts)
	b.WriteString(p.Heading)
	if strings.Count(p.Heading, "\n") == 1 { // the second line of a longer one takes the place of the blank line
		b.WriteString("\n")
	}
	b.WriteString(strings.Join(said(append(p.Causes, p.Closing)...), "\n"))
	return nil
}

func cause(b *strings.Builder, t telling, opts Options) {
	title(b, t, opts)
	if len(t.where) > 0 {
		field(b, "where", someClusters(t.where, opts.room(labelled)), opts)
	}
	if field(b, "who", t.who, opts); t.who == "" { // a headline that speaks for several then names none
		field(b, "first", t.first, opts)
	}
	field(b, "wait?", t.wait, opts)
	do(b, t.do, opts)
	list(b, "hits", t.hits, opts)
	if len(t.where) > 0 {
		field(b, "", "in the other clusters: -o wide has the commands", opts)
	}
	field(b, "don't", t.dont, opts)
	field(b, "why", t.why, opts)
	field(b, "said", t.said, opts)
	if t.also != "" {
		field(b, "also", t.also+" (-o wide lists them)", opts)
	}
	fmt.Fprintf(b, "  %-8s%s   proof: -o wide", "more", Safe(explain(t.Code)))
	if riskOf(t.Repair) != "" {
		fmt.Fprintf(b, "   risk %s", Safe(t.Repair.Risk))
	}
	b.WriteString("\n")
}

// explain returns the command that shows the page of the code.
func explain(code finding.Code) string {
	return safetext.Kubectl("volume-doctor", "explain", string(code))
}

// title writes severity, code and headline.
func title(b *strings.Builder, t telling, opts Options) {
	head := fmt.Sprintf("%s %s%s  ", t.Severity, Safe(string(t.Code)), suspected(t.Finding))
	indent := opts.room(titled)
	what := strings.Repeat("_", max(0, displaywidth.String(head)-titled-1)) // a placeholder as wide as the painted part
	text := wrap(what+" "+t.what+t.sums, indent)
	text[0] = strings.TrimPrefix(strings.TrimPrefix(text[0], what), " ")
	fmt.Fprintf(b, "%s %s%s  %s\n", paintSeverity(t.Severity, opts), Safe(string(t.Code)), suspected(t.Finding), text[0])
	for _, line := range text[1:] {
		fmt.Fprintf(b, "%*s%s\n", titled, "", line)
	}
}

// do writes the steps. Sentences are numbered if there are several; command lines are never broken
// and have nothing before them, so that they can be copied.
func do(b *strings.Builder, steps []step, opts Options) {
	head, sentences := "  do      ", 0
	for _, s := range steps {
		if s.text != "" && !s.whose {
			sentences++
		}
	}
	i := 0
	for _, s := range steps {
		switch {
		case s.whose:
			wrapped(b, head, s.text, opts)
		case s.command != "":
			fmt.Fprintf(b, "%s%s\n", head, Safe(s.command))
		case sentences > 1:
			i++
			wrapped(b, fmt.Sprintf("%s%d. ", head, i), s.text, opts)
		default:
			wrapped(b, head, s.text, opts)
		}
		head = strings.Repeat(" ", labelled)
	}
}

// titled and labelled are the columns in which the text of a headline and of a field begins.
const (
	titled   = 6
	labelled = 10
)

// list writes the texts under one label, each beginning on its own line.
func list(b *strings.Builder, label string, texts []string, opts Options) {
	for _, text := range texts {
		field(b, label, text, opts)
		label = ""
	}
}

// field writes a label and its text; continued lines are indented to the text.
func field(b *strings.Builder, label, text string, opts Options) {
	wrapped(b, fmt.Sprintf("  %-8s", label), text, opts)
}

func paintSeverity(s finding.Severity, opts Options) string {
	switch s {
	case finding.Error:
		return paint(opts.Color, string(s), color.FgRed, color.Bold)
	case finding.Warning:
		return paint(opts.Color, string(s), color.FgYellow, color.Bold)
	default:
		return paint(opts.Color, Safe(string(s)), color.FgCyan)
	}
}

func or(s string) string { return cmp.Or(Safe(s), "-") }
