package output

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/fatih/color"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
)

// printReportTable tells each cause as a story that fits 80 columns: what is
// wrong, why, whether to wait, and what to do. What follows from it stands below
// in a few lines.
func printReportTable(w io.Writer, r *diagnose.Report, opts Options) error {
	var b strings.Builder
	for i, tree := range r.Roots() {
		if i > 0 {
			b.WriteString("\n")
		}
		story(&b, r, tree[0], opts)
		affected(&b, tree)
		following(&b, tree[1:])
	}
	if len(r.Findings) > 0 {
		b.WriteString("\n")
	}
	closing(&b, r, opts)
	_, err := io.WriteString(w, b.String())
	return err
}

func story(b *strings.Builder, r *diagnose.Report, f diagnose.Finding, opts Options) {
	fmt.Fprintf(b, "%s  %s  %s\n", paintSeverity(f.Severity, opts), f.Code, f.Check)
	for _, line := range wrap(f.Message, width-2) {
		fmt.Fprintf(b, "  %s\n", line)
	}
	if f.Since != nil {
		field(b, "since", fmt.Sprintf("%s (%s ago)", f.Since.UTC().Format("2006-01-02 15:04:05 MST"), ago(r.TakenAt.Sub(f.Since.Time))))
	}
	for i, e := range f.Evidence {
		label := "evidence"
		if i > 0 {
			label = ""
		}
		field(b, label, fmt.Sprintf("%s %s: %s", e.Object, e.Field, e.Value))
	}
	field(b, "cause", f.Cause)
	field(b, "", omittedCause(r, f))
	field(b, "heals", heals(f.SelfHeals))
	field(b, "advice", f.Advice)
	if f.Repair != nil {
		reversible := "cannot be undone"
		if f.Repair.Reversible {
			reversible = "can be undone"
		}
		field(b, "repair", fmt.Sprintf("%s (risk %s, %s)", f.Repair.Kind, f.Repair.Risk, reversible))
		switch {
		case f.Repair.BlockedBy != "":
			field(b, "", "refused now: "+f.Repair.BlockedBy)
		case opts.Apply != "":
			field(b, "", opts.Apply)
		}
	}
}

// field writes a label and its text, wrapped under itself.
func field(b *strings.Builder, label, text string) {
	if text == "" {
		return
	}
	for i, line := range wrap(text, width-12) {
		if i > 0 {
			label = ""
		}
		fmt.Fprintf(b, "  %-8s  %s\n", label, line)
	}
}

func heals(h diagnose.SelfHeals) string {
	switch {
	case h.Will && h.After != "":
		return fmt.Sprintf("by itself in %s: %s", h.After, h.Because)
	case h.Will:
		return "by itself: " + h.Because
	case h.Because != "":
		return "not by itself: " + h.Because
	default:
		return "not by itself"
	}
}

// omittedCause names what the finding follows from, if it was not asked for.
func omittedCause(r *diagnose.Report, f diagnose.Finding) string {
	for _, c := range r.OmittedCauses {
		if c.Fingerprint == f.CausedBy {
			return fmt.Sprintf("it follows from %s %s on %s: %s", c.Code, c.Check, c.Subject, c.Message)
		}
	}
	return ""
}

// affected names the pods of the tree and what made them. One pod alone stands
// in the message.
func affected(b *strings.Builder, tree []diagnose.Finding) {
	var pods, workloads []string
	for _, f := range tree {
		pods, workloads = append(pods, f.Pods...), append(workloads, f.Workloads...)
	}
	pods, workloads = distinct(pods), distinct(workloads)
	if len(pods) < 2 {
		return
	}
	text := fmt.Sprintf("%d pods: %s", len(pods), some(pods))
	if len(workloads) > 0 {
		text += " (" + some(workloads) + ")"
	}
	field(b, "affects", text)
}

// following has a line for each code of what follows: the message of one alone,
// and of several how many they are.
func following(b *strings.Builder, consequences []diagnose.Finding) {
	byCode := map[diagnose.Code][]diagnose.Finding{}
	label := "so also"
	for _, f := range consequences {
		byCode[f.Code] = append(byCode[f.Code], f)
	}
	for _, code := range slices.Sorted(maps.Keys(byCode)) {
		first := byCode[code][0]
		text := fmt.Sprintf("%s %s (%s): %s", code, first.Check, first.Severity, first.Message)
		if n := len(byCode[code]); n > 1 {
			text = fmt.Sprintf("%d x %s %s (%s); -o wide lists them", n, code, first.Check, severities(byCode[code]))
		}
		if i := slices.IndexFunc(byCode[code], func(f diagnose.Finding) bool { return f.Repair != nil }); i >= 0 {
			text += "; repair " + byCode[code][i].Repair.Kind
		}
		field(b, label, text)
		label = ""
	}
}

func severities(findings []diagnose.Finding) string {
	var text []string
	for _, s := range []diagnose.Severity{diagnose.Error, diagnose.Warning, diagnose.Info} {
		n := 0
		for _, f := range findings {
			if f.Severity == s {
				n++
			}
		}
		if n > 0 {
			text = append(text, fmt.Sprintf("%d %s", n, s))
		}
	}
	return strings.Join(text, ", ")
}

func distinct(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// some names the first few of the list and says how many more there are.
func some(list []string) string {
	const few = 3
	if len(list) <= few+1 { // "and 1 more" would take the room of its name
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:few], ", "), len(list)-few)
}

// closing says how much was examined and what was not.
func closing(b *strings.Builder, r *diagnose.Report, opts Options) {
	s := r.Summary
	switch {
	case s.Error+s.Warning+s.Info > 0:
		fmt.Fprintf(b, "%s, %s, %d info\n", count(s.Error, "error"), count(s.Warning, "warning"), s.Info)
	case r.Complete && len(r.SkippedChecks) == 0 && leftOut(r) != "":
		b.WriteString("No other drift found.\n")
	case r.Complete && len(r.SkippedChecks) == 0:
		fmt.Fprintf(b, "%s\n", paint(opts.Color, "No drift found.", color.FgGreen))
	default:
		b.WriteString("No drift found in what could be read.\n")
	}
	if left := leftOut(r); left != "" {
		fmt.Fprintf(b, "not shown: %s\n", left)
	}
	for _, g := range r.Gaps {
		where := ""
		if g.Namespace != "" {
			where = " outside namespace " + g.Namespace
		}
		if g.Context != "" {
			where += " in " + g.Context
		}
		for _, line := range wrap(fmt.Sprintf("gap: %s%s could not be read (%s)%s", g.Kind, where, g.Reason, detail(g.Detail)), width) {
			fmt.Fprintln(b, line)
		}
	}
	if n := len(r.SkippedChecks); n > 0 {
		names := make([]string, 0, n)
		for _, c := range r.SkippedChecks {
			names = append(names, fmt.Sprintf("%s (%s)", c.Check, c.Because))
		}
		for _, line := range wrap(fmt.Sprintf("%s not run for want of: %s", count(n, "check"), strings.Join(names, ", ")), width) {
			fmt.Fprintln(b, line)
		}
	}
}

// leftOut counts what was found and is not in the report.
func leftOut(r *diagnose.Report) string {
	var parts []string
	if r.Suppressed > 0 {
		parts = append(parts, fmt.Sprintf("%d suppressed", r.Suppressed))
	}
	if r.Known > 0 {
		parts = append(parts, fmt.Sprintf("%d that the baseline has", r.Known))
	}
	return strings.Join(parts, ", ")
}

func detail(s string) string {
	if s == "" {
		return ""
	}
	return ": " + s
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func paintSeverity(s diagnose.Severity, opts Options) string {
	switch s {
	case diagnose.Error:
		return paint(opts.Color, string(s), color.FgRed, color.Bold)
	case diagnose.Warning:
		return paint(opts.Color, string(s), color.FgYellow, color.Bold)
	default:
		return paint(opts.Color, string(s), color.FgCyan)
	}
}

// printReportWide is one row a finding with everything that names objects, and
// below it the commands, each on a line of its own to be copied.
func printReportWide(w io.Writer, r *diagnose.Report, opts Options) error {
	var b strings.Builder
	if len(r.Findings) > 0 {
		rows := make([][]string, 0, len(r.Findings))
		follows := map[string]string{"": "-"}
		for _, c := range r.OmittedCauses {
			follows[c.Fingerprint] = fmt.Sprintf("%s %s", c.Code, c.Subject)
		}
		for _, f := range r.Findings {
			follows[f.Fingerprint] = fmt.Sprintf("%s %s", f.Code, f.Subject)
		}
		for _, f := range r.Findings {
			since := "-"
			if f.Since != nil {
				since = ago(r.TakenAt.Sub(f.Since.Time))
			}
			rows = append(rows, []string{
				paintSeverity(f.Severity, opts), string(f.Code), f.Check, Safe(f.Subject.String()), or(string(f.Node)),
				or(f.PersistentVolume), or(f.VolumeAttachment), since, or(follows[f.CausedBy]), Safe(f.Message),
			})
		}
		text, err := table([]string{"SEVERITY", "CODE", "CHECK", "SUBJECT", "NODE", "VOLUME", "VOLUMEATTACHMENT", "SINCE", "FOLLOWS FROM", "MESSAGE"}, rows)
		if err != nil {
			return err
		}
		b.WriteString(text)
		for _, f := range r.Findings {
			if f.Repair == nil {
				continue
			}
			fmt.Fprintf(&b, "\n%s %s on %s:\n", f.Code, f.Repair.Kind, Safe(f.Subject.String()))
			if f.Repair.BlockedBy != "" {
				fmt.Fprintf(&b, "# refused now: %s\n", Safe(f.Repair.BlockedBy))
			}
			for _, c := range f.Repair.Commands {
				fmt.Fprintln(&b, Safe(c))
			}
		}
		b.WriteString("\n")
	}
	closing(&b, r, opts)
	_, err := io.WriteString(w, b.String())
	return err
}

func or(s string) string {
	if s == "" {
		return "-"
	}
	return Safe(s)
}
