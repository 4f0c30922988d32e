package output

import (
	"fmt"
	"io"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var traceFormats = []struct {
	name  string
	print func(io.Writer, *diagnose.Trace, Options) error
}{
	{"table", printTraceTable},
	{"wide", printTraceWide},
	{"json", func(w io.Writer, t *diagnose.Trace, _ Options) error { return printJSON(w, t) }},
	{"yaml", func(w io.Writer, t *diagnose.Trace, _ Options) error { return printYAML(w, t) }},
	{"name", func(w io.Writer, t *diagnose.Trace, _ Options) error { return printTraceNames(w, t) }},
}

// TraceFormats are the names that PrintTrace takes.
func TraceFormats() []string {
	names := make([]string, 0, len(traceFormats))
	for _, f := range traceFormats {
		names = append(names, f.name)
	}
	return names
}

// PrintTrace writes the trace in the format, which must be one of TraceFormats.
func PrintTrace(w io.Writer, format string, t *diagnose.Trace, opts Options) error {
	for _, f := range traceFormats {
		if f.name == format {
			return f.print(w, t, opts)
		}
	}
	return unknownFormat(format, TraceFormats())
}

// printTraceTable gives the verdict, and then each volume with its stages; the
// one that it waits in is marked and told in full.
func printTraceTable(w io.Writer, t *diagnose.Trace, opts Options) error {
	var b strings.Builder
	where := "without a node"
	if t.Node != "" {
		where = "on node " + string(t.Node)
		if t.KubeletVersion != "" {
			where += " (kubelet " + t.KubeletVersion + ")"
		}
	}
	for _, line := range wrap(fmt.Sprintf("Pod %s/%s %s", t.Pod.Namespace, t.Pod.Name, where), width) {
		fmt.Fprintln(&b, line)
	}
	fmt.Fprintf(&b, "verdict: %s\n", paintWait(t.Verdict.State, opts))
	for _, line := range wrap(t.Verdict.Message, width-2) {
		fmt.Fprintf(&b, "  %s\n", line)
	}
	field(&b, "since", sinceText(t, t.Verdict.Since))
	if t.Verdict.State == diagnose.TraceInFlight || t.Verdict.State == diagnose.TraceStuck {
		field(&b, "usually", usual(t.Verdict.UsualBound))
	}
	for _, v := range t.Volumes {
		fmt.Fprintln(&b)
		traceVolume(&b, t, v, opts)
	}
	kubeletSays(&b, t)
	for i, f := range t.Findings {
		if i == 0 {
			b.WriteString("\nFindings:\n")
		}
		fmt.Fprintf(&b, "  %s  %s  %s\n", paintSeverity(f.Severity, opts), f.Code, f.Check)
		for _, line := range wrap(f.Message, width-4) {
			fmt.Fprintf(&b, "    %s\n", line)
		}
		fmt.Fprintf(&b, "    %s\n", Safe(f.Explain))
	}
	closeTrace(&b, t.Gaps, t.SkippedChecks)
	_, err := io.WriteString(w, b.String())
	return err
}

func closeTrace(b *strings.Builder, gaps []snapshot.Gap, skipped []diagnose.SkippedCheck) {
	if len(gaps) > 0 {
		b.WriteString("\n")
	}
	for _, g := range gaps {
		where := ""
		if g.Namespace != "" {
			where = " outside namespace " + g.Namespace
		}
		text := fmt.Sprintf("gap: %s%s could not be read (%s)", g.Kind, where, g.Reason)
		if g.Kind == diagnose.KubeletPods || g.Kind == diagnose.KubeletMetrics {
			text += ": " + g.Detail
		}
		for _, line := range wrap(text, width) {
			fmt.Fprintln(b, line)
		}
	}
	if n := len(skipped); n > 0 {
		fmt.Fprintf(b, "%s not run for want of what could not be read\n", count(n, "check"))
	}
}

// kubeletSays is a line for each of the kubelet's own statements.
func kubeletSays(b *strings.Builder, t *diagnose.Trace) {
	if t.Kubelet == nil || len(t.Kubelet.Statements) == 0 {
		return
	}
	b.WriteString("\n")
	hanging(b, fmt.Sprintf("The kubelet of %s itself:", t.Node), "")
	for _, s := range t.Kubelet.Statements {
		for i, line := range wrap(s.Text, width-11) {
			label := string(s.Bearing)
			if i > 0 {
				label = ""
			}
			fmt.Fprintf(b, "  %-7s  %s\n", label, line)
		}
	}
}

func sinceText(t *diagnose.Trace, since *metav1.Time) string {
	if since == nil {
		return ""
	}
	return fmt.Sprintf("%s (%s ago)", since.UTC().Format("2006-01-02 15:04:05 MST"), ago(t.TakenAt.Sub(since.Time)))
}

func usual(bound string) string {
	if bound == "" {
		return "no bound is known"
	}
	return "over within " + bound
}

func traceVolume(b *strings.Builder, t *diagnose.Trace, v diagnose.TraceVolume, opts Options) {
	title := v.Name + ": " + v.Type
	for _, part := range []struct{ label, text string }{{"", v.Claim}, {", PV", v.PersistentVolume}, {", driver", v.Driver}} {
		if part.text != "" {
			title += part.label + " " + part.text
		}
	}
	// What is mounted and was never on its way to anywhere takes one line.
	last := v.Stages[len(v.Stages)-1]
	if v.Claim == "" && v.Driver == "" && v.Broken == "" && len(v.Notes) == 0 {
		title += ", " + stageText(last.Stage) + ": " + stateText(last)
		hanging(b, title, "")
		return
	}
	hanging(b, title, "")
	for _, s := range v.Stages {
		mark := " "
		if s.Stage == v.Broken {
			mark = ">"
		}
		state := paintStage(s, fmt.Sprintf("%-10s", stateText(s)), opts)
		detail := ""
		if s.Stage != v.Broken && s.State != diagnose.StageWaiting {
			detail = s.Detail
		}
		lines := wrap(detail, width-34)
		if len(lines) == 0 {
			lines = []string{""}
		}
		fmt.Fprintln(b, strings.TrimRight(fmt.Sprintf("%s %s %-18s  %s", mark, state, stageText(s.Stage), lines[0]), " "))
		for _, line := range lines[1:] {
			fmt.Fprintf(b, "%34s%s\n", "", line)
		}
		if s.Stage == v.Broken || s.State == diagnose.StageBlocked {
			brokenStage(b, t, s)
		}
	}
	for _, note := range v.Notes {
		hanging(b, "note: "+note, "  ")
	}
}

// hanging writes the text, its further lines two blanks deeper.
func hanging(b *strings.Builder, text, indent string) {
	for i, line := range wrap(text, width-len(indent)-2) {
		if i == 1 {
			indent += "  "
		}
		fmt.Fprintf(b, "%s%s\n", indent, line)
	}
}

func brokenStage(b *strings.Builder, t *diagnose.Trace, s diagnose.Stage) {
	stageField(b, "shows", s.Detail)
	stageField(b, "waits on", s.On)
	since := sinceText(t, s.Since)
	if since != "" && s.Overdue && s.UsualBound != "" {
		since += ", usually over within " + s.UsualBound
	}
	stageField(b, "since", since)
	stageField(b, "ends", s.Ends)
	for _, said := range s.Said {
		text := fmt.Sprintf("%s: %q", said.By, said.Text)
		if said.At != nil {
			text = fmt.Sprintf("%s (%s ago): %q", said.By, ago(t.TakenAt.Sub(said.At.Time)), said.Text)
		}
		stageField(b, "said", text)
		stageField(b, "means", said.Means)
	}
}

func stageField(b *strings.Builder, label, text string) {
	for i, line := range wrap(text, width-15) {
		if i > 0 {
			label = ""
		}
		fmt.Fprintf(b, "    %-9s  %s\n", label, line)
	}
}

// printTraceWide is one row a stage with everything.
func printTraceWide(w io.Writer, t *diagnose.Trace, opts Options) error {
	var b strings.Builder
	fmt.Fprintf(&b, "verdict: %s: %s\n", paintWait(t.Verdict.State, opts), Safe(t.Verdict.Message))
	var rows [][]string
	for _, v := range t.Volumes {
		for _, s := range v.Stages {
			since := "-"
			if s.Since != nil {
				since = ago(t.TakenAt.Sub(s.Since.Time))
			}
			said := make([]string, 0, len(s.Said))
			for _, words := range s.Said {
				said = append(said, words.By+": "+words.Text)
			}
			rows = append(rows, []string{Safe(v.Name), or(v.PersistentVolume), or(v.VolumeAttachment), stageText(s.Stage),
				paintStage(s, stateText(s), opts), or(s.On), since, or(s.UsualBound), or(s.Detail), or(strings.Join(said, "; "))})
		}
	}
	if len(rows) > 0 {
		text, err := table([]string{"VOLUME", "PV", "VOLUMEATTACHMENT", "STAGE", "STATE", "ON", "SINCE", "USUALLY", "SHOWS", "SAID"}, rows)
		if err != nil {
			return err
		}
		b.WriteString("\n" + text)
	}
	kubeletSays(&b, t)
	for _, f := range t.Findings {
		fmt.Fprintf(&b, "\n%s  %s  %s  %s\n", paintSeverity(f.Severity, opts), f.Code, f.Check, Safe(f.Message))
	}
	closeTrace(&b, t.Gaps, t.SkippedChecks)
	_, err := io.WriteString(w, b.String())
	return err
}

// printTraceNames are the objects that the pod waits for.
func printTraceNames(w io.Writer, t *diagnose.Trace) error {
	var names []string
	for _, v := range t.Volumes {
		switch {
		case v.Broken == "":
		case v.VolumeAttachment != "" && v.Broken == diagnose.StageAttached:
			names = append(names, "volumeattachment/"+v.VolumeAttachment)
		case v.Claim != "":
			names = append(names, "persistentvolumeclaim/"+v.Claim)
		}
	}
	slices.Sort(names)
	return printLines(w, slices.Compact(names))
}
