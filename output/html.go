package output

import (
	"crypto/sha256"
	_ "embed" // for the style and the script
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// A page is one file without any script, font, style or picture from elsewhere, and with a policy
// that forbids to load one. Every text is escaped; what is not escaped comes from this project
// alone.

var (
	//go:embed report.css
	htmlStyle string
	//go:embed report.js
	htmlScript string
)

// htmlPage is a page with the parts that every page has.
type htmlPage struct {
	title   string
	verdict string
	// good sets the color of the verdict.
	good bool
	// about are the facts below the verdict.
	about []string
	// before, if not nil, stands in front of the main part, which label describes.
	before g.Node
	label  string
	main   g.Group
}

func (p htmlPage) write(w io.Writer) error {
	verdict := "verdict"
	if p.good {
		verdict += " good"
	}
	return h.Doctype(h.HTML(h.Lang("en"), htmlLines(
		h.Head(htmlLines(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(g.Attr("http-equiv", "Content-Security-Policy"), h.Content(htmlPolicy())),
			h.Meta(h.Name("referrer"), h.Content("no-referrer")),
			h.TitleEl(htmlText(p.title+": "+p.verdict)),
			h.Link(h.Rel("icon"), h.Href("data:,")),
			h.StyleEl(g.Raw(htmlStyle)),
		)),
		h.Body(htmlLines(
			h.A(h.Class("skip"), h.Href("#findings"), htmlText("Skip to the findings")),
			h.Header(htmlLines(
				h.H1(htmlText(p.title)),
				h.P(h.Class(verdict), htmlText(p.verdict)),
				h.P(h.Class("quiet"), htmlText(strings.Join(said(p.about...), " · "))),
			)),
			p.before,
			h.Main(h.ID("findings"), h.TabIndex("-1"), h.Aria("label", p.label), p.main),
			h.Footer(h.Class("quiet"), htmlLines(
				h.P(htmlText("Made by kubectl volume-doctor. It is a picture of one moment: look again before acting on it.")),
				h.P(h.ID("told"), h.Role("status"), h.Class("skip")),
			)),
			h.Script(g.Raw(htmlScript)),
		)),
	))).Render(w)
}

func htmlPolicy() string {
	return fmt.Sprintf("default-src 'none'; img-src data:; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'", hashSource(htmlStyle), hashSource(htmlScript))
}

func hashSource(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// htmlLines starts a new line for each node, so that the source of a page can be read.
func htmlLines(nodes ...g.Node) g.Group {
	group := make(g.Group, 0, 2*len(nodes))
	for _, n := range nodes {
		if many, ok := n.(g.Group); ok { // its nodes already have lines of their own
			group = append(group, many...)
		} else if n != nil {
			group = append(group, g.Raw("\n"), n)
		}
	}
	return group
}

// htmlEach makes a node of each item, each on its own line.
func htmlEach[T any](items []T, node func(T) g.Node) g.Group { return htmlLines(g.Map(items, node)...) }

// htmlClasses returns the class attribute: first, and every class whose condition is true.
func htmlClasses(first string, more ...htmlClass) g.Node {
	all := []string{first}
	for _, c := range more {
		if c.is {
			all = append(all, c.name)
		}
	}
	if text := strings.TrimSpace(strings.Join(all, " ")); text != "" {
		return h.Class(text)
	}
	return nil
}

type htmlClass struct {
	name string
	is   bool
}

func htmlUnread(texts []string) g.Node {
	if len(texts) == 0 {
		return nil
	}
	return h.Section(h.Class("card warning"), h.Aria("labelledby", "unread"), htmlLines(
		h.H2(h.ID("unread"), htmlText("What was not examined")),
		htmlList(texts),
	))
}

func htmlList(texts []string) g.Node {
	return h.Ul(htmlEach(texts, func(text string) g.Node { return htmlUnclosed("li", htmlText(text)) }))
}

// htmlUnclosed makes an element without its end tag, which HTML makes optional in lists. A large
// report has thousands of them.
func htmlUnclosed(name string, children ...g.Node) g.Node {
	return g.NodeFunc(func(w io.Writer) error {
		if _, err := io.WriteString(w, "<"+name+">"); err != nil {
			return err
		}
		return g.Group(children).Render(w)
	})
}

// fact is a text and its label.
type fact struct{ label, text string }

// htmlTerms returns the facts that have text, each below its label.
func htmlTerms(facts []fact) g.Node {
	var rows g.Group
	for _, f := range facts {
		if strings.TrimSpace(visible(f.text)) == "" {
			continue
		}
		rows = append(rows, g.Raw("\n"))
		if f.label != "" { // a fact without a label belongs to the label above
			rows = append(rows, htmlUnclosed("dt", htmlText(f.label)))
		}
		rows = append(rows, htmlUnclosed("dd", htmlText(f.text)))
	}
	return h.Dl(rows)
}

func htmlSeverity(s finding.Severity) g.Node { return h.Span(h.Class("severity"), htmlText(string(s))) }

func htmlCommand(line string) g.Node { return h.Div(h.Class("command"), htmlCode(line)) }

func htmlCode(line string) g.Node { return h.Pre(htmlText(line)) }

// htmlText makes a text node of a text that somebody else may have chosen. Quotes are not escaped,
// because between tags they need not be and a page with a thousand commands has thousands of them.
func htmlText(s string) g.Node { return g.Raw(betweenTags.Replace(visible(s))) }

var betweenTags = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
