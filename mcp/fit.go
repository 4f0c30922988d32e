package mcp

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

const (
	// longestLine is the longest line in bytes, and usualLine the longest where room is
	// short. A check's own text is shorter; a driver may write a page.
	longestLine = 1500
	usualLine   = 600
	// longestCommand is the longest command line in bytes; a command line is never cut.
	longestCommand = 1200
	// cutOff is the end of a line that was cut.
	cutOff = " …"
)

// summary is the report in at most limit bytes: as many causes as there is room for, those
// with the most severe findings first, and how many more there are.
func summary(r *finding.Report, limit int) string {
	type told struct {
		tree []finding.Finding
		text string
	}
	parts := output.PartsOf(r, output.Options{})
	var causes []told
	for i, tree := range r.Roots() {
		causes = append(causes, told{tree, withSubject(parts.Causes[i], tree[0])})
	}
	slices.SortStableFunc(causes, func(a, b told) int { return cmp.Compare(worst(b.tree), worst(a.tree)) })

	pieces := []string{fit(parts.Heading, limit/6)}
	closing := fit(parts.Closing, limit/4)
	left := limit - len(pieces[0]) - len(closing) - usualLine // the rest is kept for the line about what is left out
	for i, c := range causes {
		shortest := usualLine
		if i == 0 {
			shortest /= 4 // at least one cause is shown
		}
		text := shortLines(c.text, longestLine)
		for line := usualLine; len(text) > left && line >= shortest; line /= 2 {
			text = shortLines(c.text, line)
		}
		if left -= len(text) + 1; left < 0 {
			var rest [][]finding.Finding
			for _, c := range causes[i:] {
				rest = append(rest, c.tree)
			}
			pieces = append(pieces, leftOut(rest))
			break
		}
		pieces = append(pieces, text)
	}
	pieces = slices.DeleteFunc(append(pieces, closing), func(s string) bool { return s == "" })
	return strings.Join(pieces, "\n")
}

// withSubject is the cause with the name of its object where the text has only a stand-in:
// the next call needs the name.
func withSubject(cause string, f finding.Finding) string {
	// a cause with n10 does not name n1
	whole := regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(f.Subject.Name) + `($|[^\w.-]|\.($|\W))`)
	if whole.MatchString(cause) {
		return cause
	}
	return fmt.Sprintf("%s  %-8s%s\n", cause, "object", output.Safe(target(f)))
}

// target is the finding's subject as a target of diagnose.
func target(f finding.Finding) string {
	return strings.ToLower(f.Subject.Kind) + "/" + f.Subject.Name
}

// worst is the severity of the tree's most severe finding.
func worst(tree []finding.Finding) int {
	rank := 0
	for _, f := range tree {
		rank = max(rank, f.Severity.Rank())
	}
	return rank
}

// leftOut counts the causes for which there is no room, and names a target for the first of
// them.
func leftOut(causes [][]finding.Finding) string {
	const few, shortName = 3, 100
	counts := map[string]int{}
	var kinds, targets []string
	for _, tree := range causes {
		kind := fmt.Sprintf("%s %s", tree[0].Severity, tree[0].Code)
		if counts[kind]++; counts[kind] == 1 {
			kinds = append(kinds, kind)
		}
		if name := target(tree[0]); len(name) <= shortName && len(targets) < few && !slices.Contains(targets, name) {
			targets = append(targets, name)
		}
	}
	shown := kinds[:min(len(kinds), 2*few)]
	for i, kind := range shown {
		shown[i] = fmt.Sprintf("%s (%d)", kind, counts[kind])
	}
	text := fmt.Sprintf("%d more without room here: %s", len(causes), strings.Join(shown, ", "))
	if n := len(kinds) - len(shown); n > 0 {
		text += fmt.Sprintf(" and %d other codes", n)
	}
	if len(targets) > 0 {
		text += "; ask with a target, as " + strings.Join(targets, ", ")
	}
	return output.Safe(text) + "\n"
}

// fit is the text in at most limit bytes: its first and its last paragraph, and as many of
// the lines between as there is room for, with the number of missing lines.
func fit(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	text = shortLines(text, usualLine)
	lines := strings.SplitAfter(text, "\n")
	last := len(lines)
	if at := strings.LastIndex(strings.TrimRight(text, "\n"), "\n\n"); at >= 0 && len(text)-at <= limit/3 {
		last = strings.Count(text[:at+1], "\n")
	}
	const note = "… %d more lines have no room\n"
	left := limit - len(strings.Join(lines[last:], "")) - len(note) - len("1000000")
	var b strings.Builder
	for i, line := range lines[:last] {
		if left -= len(line); left < 0 {
			fmt.Fprintf(&b, note, last-i)
			break
		}
		b.WriteString(line)
	}
	return b.String() + strings.Join(lines[last:], "")
}

// shortLines cuts lines of more than limit bytes, except command lines: half of a command is
// worse than none.
func shortLines(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		trimmed := strings.TrimRight(line, "\n")
		switch command := isCommand.MatchString(trimmed); {
		case len(trimmed) <= limit, command && len(trimmed) <= longestCommand:
			b.WriteString(line)
		case command:
			b.WriteString("          (a command line that is too long here: ask with one target)\n")
		default:
			b.WriteString(beginning(trimmed, limit) + "\n")
		}
	}
	return b.String()
}

// isCommand matches a line with a command to paste, also one with a label.
var isCommand = regexp.MustCompile(`^ +(do +)?kubectl `)

// beginning is as much of the line as there is room for, up to the end of a word if possible.
func beginning(line string, limit int) string {
	end := limit - len(cutOff)
	for end > 0 && !utf8.RuneStart(line[end]) {
		end--
	}
	if space := strings.LastIndexByte(line[:end], ' '); space > end/2 {
		end = space
	}
	return line[:end] + cutOff
}
