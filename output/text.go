package output

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/clipperhouse/displaywidth"
	"github.com/fatih/color"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
)

// width is that of a terminal nobody has resized, and of a quoted mail.
const width = 80

// Safe makes every character that could steer a terminal or hide in a line
// visible: most text here was chosen by drivers and by whoever named objects.
func Safe(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// wrap breaks the text into lines of at most limit columns, at spaces where it
// can and inside a word that is longer than a line where it must.
func wrap(text string, limit int) []string {
	var lines []string
	var line string
	for _, word := range strings.Fields(Safe(text)) {
		if line != "" && displaywidth.String(line)+1+displaywidth.String(word) <= limit {
			line += " " + word
			continue
		}
		if line != "" {
			lines = append(lines, line)
		}
		for displaywidth.String(word) > limit {
			head := cut(word, limit)
			lines, word = append(lines, head), word[len(head):]
		}
		line = word
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// cut is the longest beginning of s that is at most limit columns wide.
func cut(s string, limit int) string {
	used := 0
	for i, r := range s {
		used += displaywidth.Rune(r)
		if used > limit && i > 0 {
			return s[:i]
		}
	}
	return s
}

// clip shortens s to limit columns and shows that it did.
func clip(s string, limit int) string {
	s = Safe(s)
	if displaywidth.String(s) <= limit {
		return s
	}
	return cut(s, limit-1) + "…"
}

// fit clips cells until the table is as wide as a terminal, the widest column
// first; no column gets narrower than its header.
func fit(header []string, rows [][]string) {
	widths := make([]int, len(header))
	total := 2 * (len(header) - 1)
	for i := range header {
		widths[i] = displaywidth.String(header[i])
		for _, row := range rows {
			widths[i] = max(widths[i], displaywidth.String(row[i]))
		}
		total += widths[i]
	}
	for ; total > width; total-- {
		widest := 0
		for i := range widths {
			if widths[i]-displaywidth.String(header[i]) > widths[widest]-displaywidth.String(header[widest]) {
				widest = i
			}
		}
		widths[widest]--
	}
	for _, row := range rows {
		for i := range row {
			row[i] = clip(row[i], widths[i])
		}
	}
}

// table renders rows as kubectl does: no lines, columns two blanks apart.
func table(header []string, rows [][]string) (string, error) {
	var b strings.Builder
	t := tablewriter.NewTable(&b,
		tablewriter.WithRenderer(renderer.NewBlueprint()),
		tablewriter.WithRendition(tw.Rendition{
			Borders: tw.BorderNone,
			Settings: tw.Settings{
				Separators: tw.SeparatorsNone,
				Lines:      tw.LinesNone,
			},
		}),
		tablewriter.WithHeaderAutoFormat(tw.Off),
		tablewriter.WithHeaderAlignment(tw.AlignLeft),
		tablewriter.WithRowAlignment(tw.AlignLeft),
		tablewriter.WithHeaderAutoWrap(tw.WrapNone),
		tablewriter.WithRowAutoWrap(tw.WrapNone),
		tablewriter.WithPadding(tw.Padding{Right: "  ", Overwrite: true}),
		tablewriter.WithTrimSpace(tw.Off),
	)
	t.Header(header)
	if err := t.Bulk(rows); err != nil {
		return "", fmt.Errorf("lay out the table: %w", err)
	}
	if err := t.Render(); err != nil {
		return "", fmt.Errorf("lay out the table: %w", err)
	}
	lines := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ") // tablewriter pads the last column
	}
	return strings.Join(lines, "\n") + "\n", nil
}

// paint colours s. Colour never carries the meaning alone: s names it too.
func paint(on bool, s string, attributes ...color.Attribute) string {
	c := color.New(attributes...)
	if on {
		c.EnableColor()
	} else {
		c.DisableColor()
	}
	return c.Sprint(s)
}

// ago is a duration as kubectl shows ages: its two largest units at most.
func ago(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}
