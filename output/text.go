package output

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/clipperhouse/displaywidth"
	"github.com/fatih/color"
	"github.com/olekukonko/tablewriter"
	"github.com/olekukonko/tablewriter/renderer"
	"github.com/olekukonko/tablewriter/tw"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
)

// room returns the columns that are left after the indentation; 0 if the output is not a terminal,
// where lines have any length.
func (o Options) room(indent int) int {
	if o.Width == 0 {
		return 0
	}
	return max(1, o.Width-indent)
}

// wrap breaks the text at spaces into lines of at most limit columns; 0 is no limit. A word
// longer than a line is not broken: it is a name, and a broken name cannot be searched for or
// pasted.
func wrap(text string, limit int) []string {
	words := strings.Fields(Safe(text))
	if len(words) == 0 {
		return nil
	}
	if limit == 0 {
		return []string{strings.Join(words, " ")}
	}
	lines := words[:1:1]
	for _, word := range words[1:] {
		last := &lines[len(lines)-1]
		if displaywidth.String(*last)+1+displaywidth.String(word) <= limit {
			*last += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return lines
}

// more marks the end of a text that was cut to a fixed width.
const more = "…"

// fitsIn reports whether the text fits into the given number of lines; a limit of 0 columns is
// none.
func fitsIn(text string, limit, lines int) bool { return limit == 0 || len(wrap(text, limit)) <= lines }

// cut returns the longest beginning of s that is at most limit columns wide, but at least one
// character.
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

// clip cuts s to limit columns and marks the cut. It is for pictures and labels, whose width is
// fixed.
func clip(s string, limit int) string {
	s = Safe(s)
	if displaywidth.String(s) <= limit {
		return s
	}
	return cut(s, limit-1) + more
}

// wrapped writes the head and the text; continued lines are indented to the text.
func wrapped(b *strings.Builder, head, text string, opts Options) {
	for _, line := range wrap(text, opts.room(len(head))) {
		fmt.Fprintf(b, "%s%s\n", head, line)
		head = strings.Repeat(" ", len(head))
	}
}

// hanging writes the text; continued lines are indented by two more blanks.
func hanging(b *strings.Builder, text, indent string, opts Options) {
	for i, line := range wrap(text, opts.room(len(indent)+2)) {
		if i == 1 {
			indent += "  "
		}
		fmt.Fprintf(b, "%s%s\n", indent, line)
	}
}

// Tell writes a line of what a command does while it runs; continued lines are indented by two more
// blanks.
func Tell(w io.Writer, text string, opts Options) {
	var b strings.Builder
	hanging(&b, text, "", opts)
	fmt.Fprint(w, b.String())
}

// listed writes the title and below it the text of each item; nothing if there are no items.
func listed[T any](b *strings.Builder, title string, items []T, text func(T) string, opts Options) {
	if len(items) > 0 {
		fmt.Fprintf(b, "\n%s:\n", title)
	}
	for _, item := range items {
		hanging(b, text(item), "  ", opts)
	}
}

// texts returns the text of each item.
func texts[T any](items []T, text func(T) string) []string {
	all := make([]string, 0, len(items))
	for _, item := range items {
		all = append(all, text(item))
	}
	return all
}

// said returns the texts that are not empty. It reuses the given slice.
func said(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

func joined[T ~string](items []T, separator string) string {
	return strings.Join(texts(items, func(item T) string { return string(item) }), separator)
}

// table writes rows as kubectl does: without borders, columns two blanks apart. Without rows it
// writes nothing. If below has texts, the i-th stands below the i-th row.
func table(b *strings.Builder, header []string, rows [][]string, below []string, opts Options) error {
	if len(rows) == 0 {
		return nil
	}
	var all strings.Builder
	t := tablewriter.NewTable(&all,
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
		return fmt.Errorf("lay out the table: %w", err)
	}
	if err := t.Render(); err != nil {
		return fmt.Errorf("lay out the table: %w", err)
	}
	for i, line := range strings.Split(strings.TrimRight(all.String(), "\n"), "\n") {
		fmt.Fprintln(b, strings.TrimRight(line, " ")) // tablewriter pads the last column
		if 0 < i && i <= len(below) {
			wrapped(b, "  ", below[i-1], opts)
		}
	}
	return nil
}

// paint colors s if on is set. Color never carries a meaning alone: the text says the same.
func paint(on bool, s string, attributes ...color.Attribute) string {
	c := color.New(attributes...)
	if on {
		c.EnableColor()
	} else {
		c.DisableColor()
	}
	return c.Sprint(s)
}

// ago formats an age as the messages do, so that one report has one style of time.
func ago(d time.Duration) string { return facts.Rounded(max(0, d)) }
