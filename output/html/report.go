package html

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// Report is the page of a report.
type Report struct {
	Frame
	Groups  []Group
	Count   int
	Briefly string   // why some findings are shortened; "" if none is
	Unread  []string // the gaps, and the checks that were skipped
	Docs    []Doc
}

// Group is a cause and its consequences.
type Group struct {
	Cause        Finding
	Consequences []Finding
	Follows      string
}

// Finding is one finding. A text that is "" is left out.
type Finding struct {
	ID, Class                               string
	Severity, Code, Check, Subject, Page    string
	Doc                                     string // the ID of its page in this document; "" if there is none
	What, First, Who, Why, Wait, Dont, Said string
	Since, Repair                           string
	Steps                                   []Step
	Hits                                    []string // who is hit by the steps
	Evidence                                []Evidence
	Lower                                   []string // why no smaller repair was chosen
	ByHand                                  []string // commands
	Picture                                 *Picture // nil for none
}

// Step is a sentence, or a command.
type Step struct{ Text, Command string }

// Evidence is a value in an object's field.
type Evidence struct{ Object, Field, Value string }

// Doc is the page of a code within a report.
type Doc struct {
	ID, Title string
	Page      string // the address of the page online
	// HTML is not escaped: it is rendered from a file of this project.
	HTML string
}

// manyCauses is the number of causes from which the list above them is folded.
const manyCauses = 10

// Write writes the page.
func (r Report) Write(w io.Writer) error {
	parts := each(r.Groups, Group.node)
	if len(r.Groups) == 0 {
		parts = lines(h.P(h.Class("card"), words(r.Verdict)))
	}
	return r.page(r.nav(), h.Main(h.ID("findings"), h.TabIndex("-1"), h.Aria("label", "Findings and what was read"), lines(
		parts,
		some(r.Briefly, func(text string) g.Node { return h.P(h.Class("quiet"), words(text)) }),
		unread(r.Unread),
		docs(r.Docs),
	))).Render(w)
}

// nav returns the search, which the script makes visible, and the list of causes.
func (r Report) nav() g.Node {
	if r.Count <= 1 {
		return nil
	}
	options := []g.Node{h.Option(h.Value(""), words("all"))}
	for _, severity := range []string{"error", "warning", "info"} {
		options = append(options, h.Option(words(severity)))
	}
	return h.Nav(h.Aria("label", "Findings"), lines(
		h.Div(h.ID("search"), h.Role("search"), h.Hidden(""), lines(
			h.Label(h.For("words"), words("Search")),
			h.Input(h.ID("words"), h.Type("search"), h.AutoComplete("off"), g.Attr("spellcheck", "false")),
			h.Label(h.For("severity"), words("Severity")),
			h.Select(h.ID("severity"), g.Group(options)),
			h.Span(h.ID("shown"), h.Role("status"), h.Class("quiet")),
		)),
		r.causes(),
	))
}

func (r Report) causes() g.Node {
	if len(r.Groups) <= 1 || r.Briefly != "" {
		return nil
	}
	return h.Details(g.If(len(r.Groups) <= manyCauses, g.Attr("open")), h.Summary(words(fmt.Sprintf("%d causes", len(r.Groups)))), lines(
		h.Ul(each(r.Groups, func(group Group) g.Node {
			cause := group.Cause
			var follow g.Node
			if n := len(group.Consequences); n > 0 {
				follow = g.Group{words(" "), h.Span(h.Class("quiet"), words(fmt.Sprintf("(%d follow from it)", n)))}
			}
			return h.Li(
				h.Span(h.Class("severity "+cause.Class), words(cause.Severity)), words(" "),
				h.A(h.Href("#"+cause.ID), words(cause.Code+" "+cause.Check+": "+cause.Subject)), follow)
		})),
	))
}

func (group Group) node() g.Node {
	var follow g.Node
	if len(group.Consequences) > 0 {
		follow = h.Details(h.Class("follow"), lines(
			h.Summary(words(group.Follows)),
			each(group.Consequences, func(f Finding) g.Node {
				return f.article(h.H3(h.ID(f.ID+"t"), severity(f.Severity), words(" "), f.link(), words(": "+f.Subject)))
			}),
		))
	}
	f := group.Cause
	return f.article(h.H2(h.ID(f.ID+"t"), severity(f.Severity), words(" "), f.link()), follow)
}

func (f Finding) article(title g.Node, more ...g.Node) g.Node {
	return h.Article(h.Class("card "+f.Class), h.ID(f.ID), h.Aria("labelledby", f.ID+"t"), lines(
		title,
		h.P(words(f.What)),
		f.body(),
		lines(more...),
	))
}

// link leads to the code's page: the copy inside the report if there is one, else the page online.
func (f Finding) link() g.Node {
	to := f.Page
	if f.Doc != "" {
		to = "#" + f.Doc
	}
	return h.A(h.Href(to), words(f.Code+" "+f.Check))
}

func (f Finding) body() g.Node {
	told := lines(f.steps(), f.facts(), f.proof(), f.byHand())
	if f.Picture == nil {
		return told
	}
	return h.Div(h.Class("two pictured"), lines(
		h.Div(told),
		h.Figure(lines(f.Picture.node(), h.FigCaption(words(f.Picture.Caption)))),
	))
}

func (f Finding) steps() g.Node {
	if len(f.Steps) == 0 {
		return nil
	}
	sentences, commands := 0, 0
	return lines(
		unclosed("p", words("Do")),
		h.Ol(each(f.Steps, func(s Step) g.Node {
			if s.Command != "" {
				commands++
				return h.Li(h.Class("command"), code(s.Command))
			}
			if sentences++; commands > 0 { // a browser counts the commands, too
				return unclosed("li value="+strconv.Itoa(sentences), words(s.Text))
			}
			return unclosed("li", words(s.Text))
		})),
	)
}

func (f Finding) facts() g.Node {
	return terms([]Fact{
		{"Hits", strings.Join(f.Hits, "; ")}, {"Do not", f.Dont}, {"Wait?", f.Wait}, {"Affects", f.Who}, {"First", f.First}, {"Why", f.Why}, {"Said", f.Said}, {"Since", f.Since}, {"Repair", f.Repair},
	})
}

func (f Finding) proof() g.Node {
	if len(f.Evidence) == 0 {
		return nil
	}
	var lower g.Node
	if len(f.Lower) > 0 {
		lower = lines(h.P(words("Why no smaller repair:")), list(f.Lower))
	}
	return h.Details(h.Summary(words("Proof")), lines(
		h.Ul(each(f.Evidence, func(e Evidence) g.Node {
			return unclosed("li", words(e.Object+" "+e.Field+": "), h.Code(words(e.Value)))
		})),
		lower,
	))
}

func (f Finding) byHand() g.Node {
	if len(f.ByHand) == 0 {
		return nil
	}
	return h.Details(h.Summary(words("By hand, without the guards")), each(f.ByHand, command))
}

func docs(docs []Doc) g.Node {
	if len(docs) == 0 {
		return nil
	}
	return h.Section(h.Aria("labelledby", "pages"), lines(
		h.H2(h.ID("pages"), words("What the codes mean")),
		h.P(h.Class("quiet"), words("In general. Whether a command is safe here, the finding says: it has its own.")),
		each(docs, func(d Doc) g.Node {
			return h.Details(h.Class("card page"), h.ID(d.ID), h.Summary(words(d.Title)), lines(
				g.Raw(d.HTML),
				h.P(h.A(h.Href(d.Page), h.Rel("noreferrer"), words("The same page online"))),
			))
		}),
	))
}
