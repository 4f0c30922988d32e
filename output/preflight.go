package output

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/fatih/color"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
)

var preflightFormats = []struct {
	name  string
	print func(io.Writer, *diagnose.Preflight, Options) error
}{
	{"table", func(w io.Writer, p *diagnose.Preflight, o Options) error { return printPreflight(w, p, o, false) }},
	{"wide", func(w io.Writer, p *diagnose.Preflight, o Options) error { return printPreflight(w, p, o, true) }},
	{"json", func(w io.Writer, p *diagnose.Preflight, _ Options) error { return printJSON(w, p) }},
	{"yaml", func(w io.Writer, p *diagnose.Preflight, _ Options) error { return printYAML(w, p) }},
	{"name", func(w io.Writer, p *diagnose.Preflight, _ Options) error { return printPreflightNames(w, p) }},
}

// PreflightFormats are the names that PrintPreflight takes.
func PreflightFormats() []string {
	names := make([]string, 0, len(preflightFormats))
	for _, f := range preflightFormats {
		names = append(names, f.name)
	}
	return names
}

// PrintPreflight writes the preflight in the format, which must be one of
// PreflightFormats.
func PrintPreflight(w io.Writer, format string, p *diagnose.Preflight, opts Options) error {
	for _, f := range preflightFormats {
		if f.name == format {
			return f.print(w, p, opts)
		}
	}
	return unknownFormat(format, PreflightFormats())
}

func printPreflight(w io.Writer, p *diagnose.Preflight, opts Options, wide bool) error {
	var b strings.Builder
	preflightVerdict(&b, p, opts)
	for _, s := range []struct {
		title    string
		scenario diagnose.Scenario
	}{{"drained", p.Drain}, {"lost", p.Loss}} {
		fmt.Fprintln(&b)
		hanging(&b, fmt.Sprintf("If node %s were %s now:", p.Node, s.title), "")
		if err := scenario(&b, s.scenario, opts, wide); err != nil {
			return err
		}
	}
	if len(p.Stranded) > 0 {
		fmt.Fprintln(&b)
		hanging(&b, "Would not come back, having no controller: "+strings.Join(p.Stranded, ", "), "")
	}
	for i, r := range p.Room {
		if i == 0 {
			b.WriteString("\nRoom on the other nodes:\n")
		}
		hanging(&b, roomText(r), "  ")
	}
	for i, f := range p.Findings {
		if i == 0 {
			b.WriteString("\nFindings on the node now:\n")
		}
		hanging(&b, fmt.Sprintf("%s %s %s: %s", f.Severity, f.Code, f.Check, f.Message), "  ")
	}
	if wide {
		b.WriteString("\nTimers:\n")
		for _, t := range p.Timers {
			fmt.Fprintf(&b, "  %s: %s (%s)\n", t.Name, t.Value, Safe(t.Because))
		}
	}
	if len(p.NotExamined) > 0 {
		fmt.Fprintln(&b)
		hanging(&b, "Not examined: "+strings.Join(p.NotExamined, ", "), "")
	}
	closeTrace(&b, p.Gaps, nil)
	_, err := io.WriteString(w, b.String())
	return err
}

func preflightVerdict(b *strings.Builder, p *diagnose.Preflight, opts Options) {
	ready := "Ready"
	if !p.Ready {
		ready = "not Ready"
	}
	for _, line := range wrap(fmt.Sprintf("Node %s (%s)", p.Node, ready), width) {
		fmt.Fprintln(b, line)
	}
	lacking := 0
	for _, r := range p.Room {
		lacking += r.Lacking
	}
	switch {
	case len(p.Missing) > 0:
		names := make([]string, 0, len(p.Missing))
		for _, kind := range p.Missing {
			names = append(names, string(kind))
		}
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, "unknown", color.FgYellow, color.Bold))
		hanging(b, "not all of these could be read: "+strings.Join(names, ", "), "  ")
	case p.Hangs():
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, "something would hang", color.FgRed, color.Bold))
		text := fmt.Sprintf("%d on a drain, %d on a loss", len(p.Drain.Hangs), len(p.Loss.Hangs))
		if lacking > 0 {
			text += fmt.Sprintf("; %s would find no room", count(lacking, "volume"))
		}
		hanging(b, text, "  ")
	default:
		fmt.Fprintf(b, "verdict: %s\n", paint(opts.Color, "nothing would hang beyond what the timers say", color.FgGreen))
	}
}

// scenario is a row a pod and volume, the reasons below, each once.
func scenario(b *strings.Builder, s diagnose.Scenario, opts Options, wide bool) error {
	if len(s.Waits) == 0 {
		b.WriteString("  no pod would wait for a volume\n")
	} else {
		var rows [][]string
		var reasons []string
		for _, w := range s.Waits {
			reason := slices.Index(reasons, w.Because)
			if reason < 0 {
				reason = len(reasons)
				reasons = append(reasons, w.Because)
			}
			row := []string{Safe(w.Pod), or(w.Controller), Safe(w.PersistentVolume), string(w.For), longest(w), fmt.Sprint(reason + 1)}
			if wide {
				row[5] = Safe(w.Because)
			}
			rows = append(rows, row)
		}
		header := []string{"POD", "CONTROLLER", "VOLUME", "WAITS FOR", "AT MOST", "NOTE"}
		if !wide {
			fit(header, rows)
		}
		for i, w := range s.Waits {
			if w.Never {
				rows[i][4] = paint(opts.Color, rows[i][4], color.FgYellow)
			}
		}
		text, err := table(header, rows)
		if err != nil {
			return err
		}
		b.WriteString(text)
		for i, reason := range reasons {
			if !wide {
				hanging(b, fmt.Sprintf("%d: %s", i+1, reason), "  ")
			}
		}
	}
	for _, h := range s.Hangs {
		text := cmp.Or(h.PersistentVolume, string(h.Volume))
		if len(h.Pods) > 0 {
			text += " (" + strings.Join(h.Pods, ", ") + ")"
		}
		fmt.Fprintf(b, "%s ", paint(opts.Color, "hangs:", color.FgRed, color.Bold))
		for i, line := range wrap(text+": "+h.Because, width-7) {
			if i > 0 {
				b.WriteString("       ")
			}
			fmt.Fprintln(b, line)
		}
	}
	return nil
}

func longest(w diagnose.PreflightWait) string {
	switch {
	case w.Never:
		return "never by itself"
	case w.AtMost == "":
		return "-"
	default:
		return w.AtMost
	}
}

func roomText(r diagnose.PreflightRoom) string {
	text := fmt.Sprintf("%s: %s would move", r.Driver, count(r.Moving, "volume"))
	switch {
	case r.Unlimited:
		text += "; some nodes name no limit"
	default:
		text += fmt.Sprintf("; there is room for %d", r.Free)
	}
	if r.Lacking > 0 {
		text += fmt.Sprintf("; %d would find no node with room: %s", r.Lacking, strings.Join(r.Pods, ", "))
	}
	return text
}

// printPreflightNames are the pods that would wait or not come back.
func printPreflightNames(w io.Writer, p *diagnose.Preflight) error {
	var names []string
	for _, wait := range slices.Concat(p.Drain.Waits, p.Loss.Waits) {
		if wait.For != diagnose.WaitsForNothing {
			names = append(names, podLine(wait.Pod))
		}
	}
	for _, pod := range p.Stranded {
		names = append(names, podLine(pod))
	}
	slices.Sort(names)
	return printLines(w, slices.Compact(names))
}

// podLine names the pod as the other commands do, without its namespace.
func podLine(name string) string {
	_, pod, _ := strings.Cut(name, "/")
	return "pod/" + pod
}
