package html

import (
	"fmt"
	"io"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// Trace is the page of a trace.
type Trace struct {
	Frame
	Uses     []Use
	Volumes  []Volume
	Findings []Brief
	Unread   []string
}

// Use is a claim or a volume: who uses it and where it is.
type Use struct {
	ID, Class, Title, Verdict string
	Facts                     []Fact
}

func (u Use) node() g.Node {
	return h.Section(h.Class("card "+u.Class), h.Aria("labelledby", u.ID), lines(
		h.H2(h.ID(u.ID), words(u.Title)),
		h.P(words(u.Verdict)),
		terms(u.Facts),
	))
}

// Volume is a volume of the pod with its stages.
type Volume struct {
	ID, Class, Title string
	Stages           []Stage
	Waits            []Wait
	Notes            []string
}

// Stage is one stage. Waits marks the stage in which the volume waits, and Fails that it does so for
// longer than is usual, or in vain.
type Stage struct {
	Mark, Text   string
	Waits, Fails bool
}

// Wait is a stage that is not done.
type Wait struct {
	Title string
	Facts []Fact
}

// Fact is a text and its label.
type Fact struct{ Label, Text string }

// Brief is a finding that a trace or a preflight names.
type Brief struct {
	Class, Severity, Code, Check, Page, Message, Why, Explain string
	Steps                                                     []Step
	Hits, Dont                                                string
}

// Write writes the page.
func (t Trace) Write(w io.Writer) error {
	parts := lines(each(t.Uses, Use.node), each(t.Volumes, Volume.node))
	if len(t.Volumes)+len(t.Uses) == 0 {
		parts = lines(h.P(h.Class("card"), words(t.Verdict)))
	}
	return t.page(nil, h.Main(h.ID("findings"), h.TabIndex("-1"), h.Aria("label", "Volumes, stage by stage"),
		lines(parts, briefs(t.Findings), unread(t.Unread)))).Render(w)
}

func (v Volume) node() g.Node {
	return h.Section(h.Class("card "+v.Class), h.Aria("labelledby", v.ID), lines(
		h.H2(h.ID(v.ID), words(v.Title)),
		h.Ol(h.Class("stages"), each(v.Stages, func(s Stage) g.Node {
			text := words(s.Mark + " " + s.Text)
			switch {
			case s.Fails:
				text = h.Strong(h.Class("at fails"), text)
			case s.Waits:
				text = h.Strong(h.Class("at"), text)
			}
			return h.Li(text)
		})),
		each(v.Waits, func(wait Wait) g.Node { return h.Div(h.H3(words(wait.Title)), terms(wait.Facts)) }),
		each(v.Notes, func(note string) g.Node { return h.P(words("Note: " + note)) }),
	))
}

// terms returns the facts that have text, each below its label.
func terms(facts []Fact) g.Node {
	var rows g.Group
	for _, fact := range facts {
		if strings.TrimSpace(fact.Text) == "" {
			continue
		}
		rows = append(rows, g.Raw("\n"))
		if fact.Label != "" { // a fact without a label belongs to the label above
			rows = append(rows, unclosed("dt", words(fact.Label)))
		}
		rows = append(rows, unclosed("dd", words(fact.Text)))
	}
	return h.Dl(rows)
}

func briefs(findings []Brief) g.Node {
	var articles []g.Node
	for i, f := range findings {
		id := fmt.Sprintf("f%d", i)
		articles = append(articles, h.Article(h.Class("card "+f.Class), h.ID(id), h.Aria("labelledby", id+"-title"), lines(
			h.H2(h.ID(id+"-title"), severity(f.Severity), words(" "), h.A(h.Href(f.Page), h.Rel("noreferrer"), words(f.Code+" "+f.Check))),
			h.P(h.Class("what"), words(f.Message)),
			Finding{Steps: f.Steps}.steps(),
			terms([]Fact{{"Hits", f.Hits}, {"Do not", f.Dont}, {"Why", f.Why}}),
			command(f.Explain),
		)))
	}
	return lines(articles...)
}
