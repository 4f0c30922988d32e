// Package explain has the pages about failure modes, repairs and harmful advice, and finds
// the pages that are nearest to pasted words.
package explain

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// Page is about one failure mode, one kind of repair or one piece of advice.
type Page struct {
	Code     string // "" where it is not a check
	Name     string
	Severity string
	Title    string
	Text     string
	Section  string
}

// Pages are all pages, in the order of Contents.
func Pages() []Page {
	var list []Page
	for _, c := range diagnose.Checks() {
		list = append(list, Page{string(c.Code), c.Name, string(c.Severity), c.Title, output.Page(c), "Failure modes"})
	}
	for _, t := range repair.Topics() {
		section := "Repairs, the lowest risk first"
		if t.Never {
			section = "Advice that does harm"
		}
		list = append(list, Page{"", t.Name, "", t.Title(), t.Doc(), section})
	}
	return list
}

// Contents lists the pages, by section.
func Contents(w io.Writer) error {
	section := ""
	for _, p := range Pages() {
		if p.Section != section {
			if section != "" {
				fmt.Fprintln(w)
			}
			section = p.Section
			fmt.Fprintf(w, "%s\n\n", section)
		}
		if err := p.list(w); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "\nWhat drivers say\n\n%s\n       The drivers and the tools of a node whose words are known: each name has a page\n", driversPage)
	return err
}

func (p Page) list(w io.Writer) error {
	line := p.Name
	if p.Code != "" {
		line = fmt.Sprintf("%s  %-7s  %s", p.Code, p.Severity, p.Name)
	}
	_, err := fmt.Fprintf(w, "%s\n       %s\n", line, p.Title)
	return err
}

// Named is the page with this code or name, in any case.
func Named(words string) (Page, bool) {
	for _, p := range Pages() {
		if strings.EqualFold(p.Name, words) || strings.EqualFold(p.Code, words) {
			return p, true
		}
	}
	return Page{}, false
}

// Words prints what the words mean where they are known, and lists the pages that are nearest
// to them. It fails where no page has any of them.
func Words(w io.Writer, words string) error {
	known, messages := warn(w, words), messagesOf(words)
	if !known {
		var cards []string
		for _, message := range messages {
			var card strings.Builder
			known = sayMeaning(&card, message) || known
			if !slices.Contains(cards, card.String()) {
				cards = append(cards, card.String())
				fmt.Fprint(w, card.String())
			}
		}
	}
	if err := search(w, words, hintsOf(messages[0])); err != nil && !known {
		return err
	}
	return nil
}
