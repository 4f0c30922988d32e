package output

import (
	"fmt"
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

// room is what is left of a line of the terminal behind the indentation; 0 where
// the text goes to no terminal, and lines are as long as what they say.
func (o Options) room(indent int) int {
	if o.Width == 0 {
		return 0
	}
	return max(1, o.Width-indent)
}

// wrap breaks the text at spaces into lines of at most limit columns; 0 is no
// limit. A word that is longer than a line stands whole: it is a name, and a name
// in two parts cannot be searched for or pasted.
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

// more ends a text that is shortened where its room is fixed.
const more = "…"

// fitsIn reports whether the text takes no more lines than given; 0 columns is no limit.
func fitsIn(text string, limit, lines int) bool { return limit == 0 || len(wrap(text, limit)) <= lines }

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

// clip shortens s to limit columns and shows that it did: for pictures and labels,
// whose room is fixed.
func clip(s string, limit int) string {
	s = Safe(s)
	if displaywidth.String(s) <= limit {
		return s
	}
	return cut(s, limit-1) + more
}

// wrapped writes the text behind the head, its further lines below its beginning.
func wrapped(b *strings.Builder, head, text string, opts Options) {
	for _, line := range wrap(text, opts.room(len(head))) {
		fmt.Fprintf(b, "%s%s\n", head, line)
		head = strings.Repeat(" ", len(head))
	}
}

// hanging writes the text, its further lines two blanks deeper.
func hanging(b *strings.Builder, text, indent string, opts Options) {
	for i, line := range wrap(text, opts.room(len(indent)+2)) {
		if i == 1 {
			indent += "  "
		}
		fmt.Fprintf(b, "%s%s\n", indent, line)
	}
}

// listed writes the title, and below it the text of each item; nothing without items.
func listed[T any](b *strings.Builder, title string, items []T, text func(T) string, opts Options) {
	if len(items) > 0 {
		fmt.Fprintf(b, "\n%s:\n", title)
	}
	for _, item := range items {
		hanging(b, text(item), "  ", opts)
	}
}

// texts are the texts of the items.
func texts[T any](items []T, text func(T) string) []string {
	all := make([]string, 0, len(items))
	for _, item := range items {
		all = append(all, text(item))
	}
	return all
}

// said are the texts that are not empty.
func said(texts ...string) []string {
	return slices.DeleteFunc(texts, func(s string) bool { return s == "" })
}

func joined[T ~string](items []T, separator string) string {
	return strings.Join(texts(items, func(item T) string { return string(item) }), separator)
}

// table writes rows as kubectl does: no lines, columns two blanks apart; nothing without
// rows. Below each row stands its text, where there are texts.
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

// ago is an age, in the words of messages: one screen has one clock.
func ago(d time.Duration) string { return facts.Rounded(max(0, d)) }
