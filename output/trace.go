package output

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TraceFormats print the documents of one trace command.
var TraceFormats = formats[[]trace.Document]{
	{"table", inTurn(printTraceTable, printUseTable)},
	{"wide", inTurn(printTraceWide, printUseWide)},
	{"json", asOne(printJSON[any])},
	{"yaml", asOne(printYAML[any])},
	{"name", printTraceNames},
	{"html", printTraceHTML},
}

// inTurn prints one document after the other, with a blank line between them.
func inTurn(ofPod func(*strings.Builder, *trace.Trace, Options) error, ofUse func(*strings.Builder, *trace.VolumeUse, Options) error) func(*strings.Builder, []trace.Document, Options) error {
	return func(b *strings.Builder, documents []trace.Document, opts Options) error {
		for i, document := range documents {
			if i > 0 {
				b.WriteString("\n")
			}
			var err error
			switch d := document.(type) {
			case *trace.Trace:
				err = ofPod(b, d, opts)
			case *trace.VolumeUse:
				err = ofUse(b, d, opts)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// TraceList is the JSON and YAML document for several traces. A single trace has no list around it.
type TraceList struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	Items      []trace.Document `json:"items"`
}

// asOne prints one document, or a list of several.
func asOne(printed func(*strings.Builder, any, Options) error) func(*strings.Builder, []trace.Document, Options) error {
	return func(b *strings.Builder, documents []trace.Document, opts Options) error {
		if len(documents) == 1 {
			return printed(b, documents[0], opts)
		}
		return printed(b, TraceList{finding.APIVersion, "TraceList", documents}, opts)
	}
}

// printTraceTable writes the verdict and then each volume with its stages in a row. The stage in
// which the volume waits is marked and explained below the row.
func printTraceTable(b *strings.Builder, t *trace.Trace, opts Options) error {
	where := "without a node"
	if t.Node != "" {
		where = "on node " + string(t.Node)
		if t.KubeletVersion != "" {
			where += " (kubelet " + t.KubeletVersion + ")"
		}
	}
	wrapped(b, "", fmt.Sprintf("Pod %s/%s %s", t.Pod.Namespace, t.Pod.Name, where), opts)
	fmt.Fprintf(b, "verdict: %s%s\n", paintVerdict(t, opts), stuckFor(t))
	wrapped(b, "  ", t.Verdict.Message, opts)
	field(b, "since", sinceText(t.TakenAt, t.Verdict.Since), opts)
	if t.Verdict.State == finding.InFlight {
		field(b, "usually", usual(t.Verdict.UsualBound), opts)
	}
	asBefore := saidBefore(t)
	for _, v := range t.Volumes {
		fmt.Fprintln(b)
		traceVolume(b, v, asBefore, opts)
	}
	kubeletSays(b, t, opts)
	tellBriefs(b, t.Findings, t.TakenAt.Time, opts)
	closeTrace(b, opts, t.Source, t.Gaps, t.SkippedChecks)
	return nil
}

// tellBriefs writes for each finding what is wrong, what to do and what not to do.
func tellBriefs(b *strings.Builder, findings []finding.Brief, at time.Time, opts Options) {
	for _, f := range findings {
		b.WriteString("\n")
		t := tellBrief(f, at)
		inFull(b, t, opts)
		field(b, "more", f.Explain, opts)
	}
}

// tellBrief makes the telling of a finding that is shown next to a trace. The trace already has the
// waits and their causes.
func tellBrief(f finding.Brief, at time.Time) telling {
	whole := f.Whole
	whole.Code, whole.Severity = f.Code, f.Severity
	if whole.Repair != nil {
		one := *whole.Repair // without ApplyAll, which would also repair things that the trace is not about
		one.ApplyAll = ""
		whole.Repair = &one
	}
	return telling{Finding: whole, what: f.Message, do: besideWhy(whole, at, refused(whole.Repair)),
		hits: hits(whole.Steps), dont: whole.Never, why: f.Detail}
}

func closeTrace(b *strings.Builder, opts Options, source snapshot.Source, gaps []snapshot.Gap, skipped []finding.SkippedCheck) {
	if len(gaps) > 0 {
		b.WriteString("\n")
	}
	for _, text := range gapsTogether(eachAskedOnce(gaps)...) {
		wrapped(b, "", "gap: "+text, opts)
	}
	wrapped(b, "", toSend(gaps), opts)
	wrapped(b, "", RightsToAsk(gaps, source.Path != ""), opts)
	if n := len(skipped); n > 0 {
		fmt.Fprintf(b, "%s skipped, because something could not be read\n", count(n, "check"))
	}
}

// kubeletSays writes one line for each statement of the kubelet.
func kubeletSays(b *strings.Builder, t *trace.Trace, opts Options) {
	if t.Kubelet == nil || len(t.Kubelet.Statements) == 0 {
		return
	}
	b.WriteString("\n")
	hanging(b, fmt.Sprintf("The kubelet of %s itself:", t.Node), "", opts)
	writeStatements(b, t.Kubelet.Statements, opts)
}

// writeStatements writes a kubelet's own statements, each after its relation to what the objects
// show.
func writeStatements(b *strings.Builder, statements []trace.KubeletStatement, opts Options) {
	for _, s := range statements {
		wrapped(b, fmt.Sprintf("  %-7s  ", s.Bearing), s.Text, opts)
	}
}

// soonerStuck reports whether the usual time of a stuck pod is not over yet. A finding has then
// shown that it is stuck, and the usual time says nothing about it.
func soonerStuck(t *trace.Trace) bool {
	bound, err := time.ParseDuration(t.Verdict.UsualBound)
	return err == nil && t.Verdict.Since != nil && t.TakenAt.Sub(t.Verdict.Since.Time) < bound
}

// stuckFor is how long a stuck pod has waited, and how long the wait usually takes at most; ""
// for all other pods.
func stuckFor(t *trace.Trace) string {
	if t.Verdict.State != finding.Stuck || t.Verdict.Since == nil {
		return ""
	}
	text := " for "
	if !t.Complete { // an unread object may show that it began earlier
		text += "at least "
	}
	text += ago(t.TakenAt.Sub(t.Verdict.Since.Time))
	if t.Verdict.UsualBound != "" && !soonerStuck(t) {
		text += " (normally under " + t.Verdict.UsualBound + ")"
	}
	return text
}

func usual(bound string) string {
	if bound == "" {
		return "no bound is known"
	}
	return "over within " + bound
}

func traceVolume(b *strings.Builder, v trace.VolumeTrace, asBefore func(trace.VolumeTrace, trace.Stage) []fact, opts Options) {
	title := traceTitle(v)
	// A volume without claim, driver, notes and broken stage takes one line.
	last := v.Stages[len(v.Stages)-1]
	if v.Claim == "" && v.Driver == "" && v.Broken == "" && len(v.Notes) == 0 {
		title += ", " + stageText(last.Stage) + ": " + stateText(last)
		hanging(b, title, "", opts)
		return
	}
	hanging(b, title, "", opts)
	stageLine(b, v, opts)
	for _, s := range v.Stages {
		if s.Stage == v.Broken || s.State == trace.StageBlocked {
			at := fact{"at", stageText(s.Stage) + ": " + stateText(s)}
			for _, f := range append([]fact{at}, asBefore(v, s)...) {
				wrapped(b, fmt.Sprintf("    %-9s  ", f.label), f.text, opts)
			}
		}
	}
	for _, note := range v.Notes {
		hanging(b, "note: "+note, "  ", opts)
	}
}

// stageLine draws the stages in a row, each after its mark. The stage in which the volume waits is
// in brackets.
func stageLine(b *strings.Builder, v trace.VolumeTrace, opts Options) {
	const arrow = " → "
	line, used := "  ", 2
	for i, s := range v.Stages {
		text := stageMark(s, v) + " " + stageText(s.Stage)
		if s.Stage == v.Broken {
			text = "[" + text + "]"
		}
		columns := displaywidth.String(text)
		if i > 0 {
			if opts.Width > 0 && used+displaywidth.String(arrow)+columns+len(" →") > opts.Width {
				fmt.Fprintln(b, line+" →")
				line, used = "  ", 2
			} else {
				line += arrow
				used += displaywidth.String(arrow)
			}
		}
		line += paintStage(s, v, text, opts)
		used += columns
	}
	fmt.Fprintln(b, line)
}

// stageMark returns the mark for the stage's state: done, broken, under way, still to come or not
// known.
func stageMark(s trace.Stage, v trace.VolumeTrace) string {
	switch {
	case stageFails(s, v):
		return "✗"
	case s.State == trace.StageDone:
		return "✓"
	case s.State == trace.StageUnknown:
		return "?"
	case s.State == trace.StageNotNeeded:
		return "-"
	case s.Stage == v.Broken:
		return "…"
	default:
		return "·"
	}
}

// stageFails reports whether the stage is reached and not merely under way. What blocks a stage
// usually ends by itself where it has a usual bound.
func stageFails(s trace.Stage, v trace.VolumeTrace) bool {
	late := s.Overdue || s.UsualBound == ""
	return s.State == trace.StageBlocked && late || s.Stage == v.Broken && s.State == trace.StageWaiting && s.Overdue
}

// printTraceWide writes one row with all fields for each stage.
func printTraceWide(b *strings.Builder, t *trace.Trace, opts Options) error {
	fmt.Fprintf(b, "verdict: %s: %s\n", paintVerdict(t, opts), Safe(t.Verdict.Message))
	var rows [][]string
	for _, v := range t.Volumes {
		for _, s := range v.Stages {
			said := texts(s.Said, func(words trace.Said) string { return words.By + ": " + words.Text })
			rows = append(rows, []string{Safe(v.Name), or(v.PersistentVolume), or(v.VolumeAttachment), stageText(s.Stage),
				paintStage(s, v, stateText(s), opts), or(s.On), agoOr(t.TakenAt, s.Since), or(s.UsualBound), or(s.Detail), or(strings.Join(said, "; "))})
		}
	}
	if len(rows) > 0 {
		b.WriteString("\n")
	}
	header := []string{"VOLUME", "PV", "VOLUMEATTACHMENT", "STAGE", "STATE", "ON", "SINCE", "USUALLY", "SHOWS", "SAID"}
	if err := table(b, header, rows, nil, opts); err != nil {
		return err
	}
	kubeletSays(b, t, opts)
	for _, f := range t.Findings {
		fmt.Fprintf(b, "\n%s  %s  %s  %s\n", paintSeverity(f.Severity, opts), f.Code, f.Check, Safe(f.Line()))
	}
	closeTrace(b, opts, t.Source, t.Gaps, t.SkippedChecks)
	return nil
}

// printTraceNames writes the names of the objects that a pod waits for, and of the pods that use a
// claim.
func printTraceNames(b *strings.Builder, documents []trace.Document, _ Options) error {
	var names []string
	for _, document := range documents {
		switch d := document.(type) {
		case *trace.Trace:
			names = append(names, waitedFor(d)...)
		case *trace.VolumeUse:
			for _, p := range d.Pods {
				_, name, _ := strings.Cut(p.Pod, "/")
				names = append(names, "pod/"+name)
			}
		}
	}
	slices.Sort(names)
	return printLines(b, slices.Compact(names))
}

func waitedFor(t *trace.Trace) []string {
	var names []string
	for _, v := range t.Volumes {
		switch {
		case v.Broken == "":
		case v.VolumeAttachment != "" && v.Broken == trace.StageAttached:
			names = append(names, "volumeattachment/"+v.VolumeAttachment)
		case v.Claim != "":
			names = append(names, "persistentvolumeclaim/"+v.Claim)
		}
	}
	return names
}
