package output

import (
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
)

// printMarkdown is for a ticket: GitHub's flavour, which GitLab and most trackers
// read. What may be long is folded.
func printMarkdown(w io.Writer, r *diagnose.Report, _ Options) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## Volume report: %s\n\n", prose(verdict(r)))
	facts := about(r)
	for i, fact := range facts {
		facts[i] = span(fact)
	}
	fmt.Fprintf(&b, "%s\n", strings.Join(facts, ", "))
	groups := r.Roots()
	if len(groups) > 0 {
		b.WriteString("\n| severity | code | check | subject | follow from it |\n| --- | --- | --- | --- | --- |\n")
	}
	for _, group := range groups {
		f := group[0]
		fmt.Fprintf(&b, "| %s | [%s](%s) | %s | %s | %d |\n", prose(string(f.Severity)), prose(string(f.Code)), pageOf(f.Code),
			prose(f.Check), cell(f.Subject.String()), len(group)-1)
	}
	for _, group := range groups {
		markdownFinding(&b, r, group[0], "###")
		if len(group) == 1 {
			continue
		}
		fmt.Fprintf(&b, "\n<details><summary>%s</summary>\n", followCount(len(group)-1))
		for _, f := range group[1:] {
			markdownFinding(&b, r, f, "####")
		}
		b.WriteString("\n</details>\n")
	}
	if len(r.Gaps)+len(r.SkippedChecks) > 0 {
		b.WriteString("\n### Not examined\n\n")
		for _, g := range r.Gaps {
			fmt.Fprintf(&b, "- %s\n", prose(gapText(g)))
		}
		for _, c := range r.SkippedChecks {
			fmt.Fprintf(&b, "- %s\n", prose(fmt.Sprintf("%s %s was not run: %s could not be read", c.Code, c.Check, c.Because)))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func markdownFinding(b *strings.Builder, r *diagnose.Report, f diagnose.Finding, heading string) {
	fmt.Fprintf(b, "\n%s %s %s %s\n\n%s\n\n", heading, prose(string(f.Severity)), prose(string(f.Code)), prose(f.Check), prose(f.Message))
	item := func(label, text string) {
		if text != "" {
			fmt.Fprintf(b, "- **%s**: %s\n", label, prose(text))
		}
	}
	if f.Since != nil {
		item("Since", fmt.Sprintf("%s (%s before the report)", f.Since.UTC().Format("2006-01-02 15:04:05 MST"), ago(r.TakenAt.Sub(f.Since.Time))))
	}
	item("Cause", f.Cause)
	item("By itself", heals(f.SelfHeals))
	item("What to do", f.Advice)
	if f.Repair != nil {
		item("Repair", fmt.Sprintf("%s (risk %s, %s)", f.Repair.Kind, f.Repair.Risk, undoable(f.Repair)))
		item("Refused now", f.Repair.BlockedBy)
	}
	if len(f.Evidence) > 0 {
		b.WriteString("\n<details><summary>Evidence</summary>\n\n| object | field | value |\n| --- | --- | --- |\n")
		for _, e := range f.Evidence {
			fmt.Fprintf(b, "| %s | %s | %s |\n", cell(e.Object), cell(e.Field), cell(e.Value))
		}
		b.WriteString("\n</details>\n")
	}
	if f.Repair != nil && len(f.Repair.Commands) > 0 {
		fmt.Fprintf(b, "\n%s\n", fenced(f.Repair.Commands))
	}
}

// prose is text in which nothing is markup. Trackers also turn names, numbers
// and addresses into mentions, references and links, after the markup is done:
// an empty comment keeps those apart.
func prose(s string) string {
	s = strings.Join(strings.Fields(visible(s)), " ")
	lead := leads.FindString(s) // what would begin a list or a rule
	s = s[len(lead):]
	if lead != "" {
		lead = lead[:len(lead)-1] + `\` + lead[len(lead)-1:]
	}
	s = markup.Replace(s)
	for _, reference := range references {
		s = reference.ReplaceAllString(s, "$1<!-- -->$2")
	}
	return lead + s
}

var (
	leads  = regexp.MustCompile(`^(\d+[.)]|[-+=])`)
	markup = strings.NewReplacer(`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", `\<`, ">", `\>`, "#", `\#`, "|", `\|`, "~", `\~`, "&", `\&`, "$", `\$`)
	// references are one after the other: their matches may overlap.
	references = []*regexp.Regexp{
		regexp.MustCompile(`((?i)www)(\.)`), regexp.MustCompile(`(:)(//)`), regexp.MustCompile(`(GH-)([0-9])`), regexp.MustCompile(`([@#])([\pL\pN])`),
	}
)

// span is text in a code span, in which no tracker looks for anything.
func span(s string) string {
	s = visible(s)
	if strings.TrimSpace(s) == "" {
		return ""
	}
	fence := strings.Repeat("`", longestRun(s, '`')+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") || strings.HasPrefix(s, " ") && strings.HasSuffix(s, " ") {
		s = " " + s + " " // one blank on each side is not shown
	}
	return fence + s + fence
}

// cell is a code span in a table, where a bar must be escaped even there.
func cell(s string) string { return strings.ReplaceAll(span(s), "|", `\|`) }

// fenced is a block of commands, one a line.
func fenced(commands []string) string {
	lines := make([]string, 0, len(commands))
	longest := 2
	for _, c := range commands {
		c = visible(c)
		longest = max(longest, longestRun(c, '`'))
		lines = append(lines, c)
	}
	fence := strings.Repeat("`", longest+1)
	return fence + "sh\n" + strings.Join(lines, "\n") + "\n" + fence
}

func longestRun(s string, of rune) int {
	longest, run := 0, 0
	for _, r := range s {
		if r != of {
			run = 0
			continue
		}
		run++
		longest = max(longest, run)
	}
	return longest
}
