package output

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// A comment on GitHub has at most 65,536 characters. markdownEnd of them are reserved for the lines
// at the end of a report that is cut.
const (
	markdownLimit = 65536
	markdownEnd   = 2048
)

// printMarkdown writes the report for a ticket, in GitHub's flavour of Markdown, which GitLab and
// most trackers also read. Long parts are folded. Findings that would make the text longer than a
// comment may be are left out and counted.
func printMarkdown(b *strings.Builder, r *finding.Report, _ Options) error {
	var head, end strings.Builder
	fmt.Fprintf(&head, "## Volume report: %s\n\n", prose(verdict(r)))
	fmt.Fprintf(&head, "%s\n", strings.Join(said(texts(append(about(r), askedFor(r), wholeScope(r)), span)...), ", "))
	if len(r.Gaps)+len(r.SkippedChecks) > 0 {
		end.WriteString("\n### Not examined\n\n")
		for _, text := range gapTexts(r) {
			fmt.Fprintf(&end, "- %s\n", prose(clip(visible("gap: "+text), 1000)))
		}
		for _, text := range skippedTexts(r, everyCheck) {
			fmt.Fprintf(&end, "- %s\n", prose(text))
		}
	}
	left := markdownLimit - markdownEnd - head.Len() - end.Len()
	var rows, bodies strings.Builder
	omitted := 0
	for i, tree := range r.Roots() {
		row := markdownRow(tree)
		if i == 0 {
			row = "\n| severity | code | check | subject | follow from it |\n| --- | --- | --- | --- | --- |\n" + row
		}
		body, shown := markdownCause(r, tree, left-len(row))
		omitted += len(tree) - shown
		if shown == 0 {
			continue
		}
		left -= len(row) + len(body)
		rows.WriteString(row)
		bodies.WriteString(body)
	}
	text := head.String() + rows.String() + bodies.String()
	if omitted > 0 {
		text += fmt.Sprintf("\n%s left out: a comment has no room for more. -o json has all.\n", count(omitted, "finding"))
	}
	b.WriteString(text + end.String())
	return nil
}

func markdownRow(tree []finding.Finding) string {
	f := tree[0]
	return fmt.Sprintf("| %s | [%s](%s) | %s | %s | %d |\n", prose(string(f.Severity)), prose(string(f.Code)), pageOf(f.Code),
		prose(f.Check), cell(f.Subject.String()), len(tree)-1)
}

// markdownCause returns the section of a cause with as many of its consequences as fit into room,
// and the number of findings it shows; "" and 0 if even the cause does not fit.
func markdownCause(r *finding.Report, tree []finding.Finding, room int) (text string, shown int) {
	var b strings.Builder
	markdownFinding(&b, r, tell(r, tree), "###")
	if b.Len() > room {
		return "", 0
	}
	if len(tree) == 1 {
		return b.String(), 1
	}
	const fold = "\n<details><summary>%s</summary>\n"
	const unfold = "\n</details>\n"
	fmt.Fprintf(&b, fold, followCount(len(tree)-1))
	shown = 1
	for _, follower := range tree[1:] {
		var next strings.Builder
		markdownFinding(&next, r, tell(r, []finding.Finding{follower}), "####")
		if b.Len()+next.Len()+len(unfold) > room {
			break
		}
		b.WriteString(next.String())
		shown++
	}
	b.WriteString(unfold)
	return b.String(), shown
}

func markdownFinding(b *strings.Builder, r *finding.Report, t telling, heading string) {
	f := t.Finding
	fmt.Fprintf(b, "\n%s %s %s %s\n\n%s\n\n", heading, prose(string(f.Severity)), prose(string(f.Code)), prose(f.Check+suspected(f)), prose(t.what+t.sums))
	item := func(label, text string) {
		if text != "" {
			fmt.Fprintf(b, "- **%s**: %s\n", label, prose(text))
		}
	}
	item("Affects", t.who)
	item("First", t.first)
	for i, s := range t.do {
		item("Do", s.text)
		if s.command == "" || i > 0 && t.do[i-1].command != "" {
			continue // none, or in the block of the first command of its step
		}
		var commands []string
		for _, same := range t.do[i:] {
			if same.command == "" {
				break
			}
			commands = append(commands, same.command)
		}
		// The indent keeps the block in the list, under its sentence.
		fmt.Fprintf(b, "\n  %s\n\n", strings.ReplaceAll(fenced(commands), "\n", "\n  "))
	}
	for _, text := range t.hits {
		item("Hits", text)
	}
	item("Do not", t.dont)
	item("Wait?", t.wait)
	item("Why", t.why)
	item("Said", t.said)
	item("Since", sinceText(r.TakenAt, f.Since))
	item("Repair", riskOf(f.Repair))
	if len(f.Evidence) > 0 {
		b.WriteString("\n<details><summary>Proof</summary>\n\n| object | field | value |\n| --- | --- | --- |\n")
		for _, e := range f.Evidence {
			fmt.Fprintf(b, "| %s | %s | %s |\n", cell(e.Object), cell(e.Field), cell(e.Value))
		}
		b.WriteString("\n</details>\n")
	}
	if commands := byHand(f); len(commands) > 0 {
		fmt.Fprintf(b, "\n<details><summary>By hand, without the guards</summary>\n\n%s\n\n</details>\n", fenced(commands))
	}
}

// prose escapes all markup in the text. Trackers also turn names, numbers and addresses into
// mentions, references and links, after they have processed the markup; an empty HTML comment
// within each of them prevents this.
func prose(s string) string {
	s = strings.Join(strings.Fields(visible(s)), " ")
	lead := leads.FindString(s) // the characters that would begin a list or a rule
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
	// references are replaced one after the other, because their matches may overlap.
	references = []*regexp.Regexp{
		regexp.MustCompile(`((?i)www)(\.)`), regexp.MustCompile(`(:)(//)`), regexp.MustCompile(`(GH-)([0-9])`), regexp.MustCompile(`([@#])([\pL\pN])`),
	}
)

// span returns the text as a code span, in which no tracker interprets anything.
func span(s string) string {
	s = visible(s)
	if strings.TrimSpace(s) == "" {
		return ""
	}
	fence := strings.Repeat("`", longestRun(s, '`')+1)
	if strings.HasPrefix(s, "`") || strings.HasSuffix(s, "`") || strings.HasPrefix(s, " ") && strings.HasSuffix(s, " ") {
		s = " " + s + " " // Markdown removes one blank on each side
	}
	return fence + s + fence
}

// cell returns a code span for a table, where a bar must be escaped even in code.
func cell(s string) string { return strings.ReplaceAll(span(s), "|", `\|`) }

// fenced returns a code block with one command per line.
func fenced(commands []string) string {
	lines := strings.Join(texts(commands, visible), "\n")
	fence := strings.Repeat("`", max(2, longestRun(lines, '`'))+1)
	return fence + "sh\n" + lines + "\n" + fence
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
