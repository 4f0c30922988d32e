// Package html writes a report, a trace and a preflight as a page: one file without any script,
// font, style or picture from elsewhere, and with a policy that forbids to load one. Every text is
// escaped; what is not escaped comes from this project alone.
package html

import (
	"crypto/sha256"
	_ "embed" // for the style and the script
	"encoding/base64"
	"fmt"
	"io"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

var (
	//go:embed report.css
	style string
	//go:embed report.js
	script string
)

// Frame holds the parts that every page has.
type Frame struct {
	Title   string
	Verdict string
	// Good sets the color of the verdict.
	Good bool
	// About are the facts below the verdict.
	About []string
}

// page puts the frame around the main part. The node before, if not nil, stands in front of the
// main part.
func (f Frame) page(before, main g.Node) g.Node {
	verdict := "verdict"
	if f.Good {
		verdict += " good"
	}
	return h.Doctype(h.HTML(h.Lang("en"), lines(
		h.Head(lines(
			h.Meta(h.Charset("utf-8")),
			h.Meta(h.Name("viewport"), h.Content("width=device-width, initial-scale=1")),
			h.Meta(g.Attr("http-equiv", "Content-Security-Policy"), h.Content(policy())),
			h.Meta(h.Name("referrer"), h.Content("no-referrer")),
			h.TitleEl(words(f.Title+": "+f.Verdict)),
			h.Link(h.Rel("icon"), h.Href("data:,")),
			h.StyleEl(g.Raw(style)),
		)),
		h.Body(lines(
			h.A(h.Class("skip"), h.Href("#findings"), words("Skip to the findings")),
			h.Header(lines(
				h.H1(words(f.Title)),
				h.P(h.Class(verdict), words(f.Verdict)),
				h.P(h.Class("quiet"), words(strings.Join(f.About, " · "))),
			)),
			before, main,
			h.Footer(h.Class("quiet"), lines(
				h.P(words("Made by kubectl volume-doctor. It is a picture of one moment: look again before acting on it.")),
				h.P(h.ID("told"), h.Role("status"), h.Class("skip")),
			)),
			h.Script(g.Raw(script)),
		)),
	)))
}

func policy() string {
	return fmt.Sprintf("default-src 'none'; img-src data:; style-src '%s'; script-src '%s'; base-uri 'none'; form-action 'none'", hashSource(style), hashSource(script))
}

func hashSource(content string) string {
	sum := sha256.Sum256([]byte(content))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// lines starts a new line for each node, so that the source of a page can be read.
func lines(nodes ...g.Node) g.Group {
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

// each makes a node of each item, each on its own line.
func each[T any](items []T, node func(T) g.Node) g.Group { return lines(g.Map(items, node)...) }

// some returns the node for the text, or nil if the text is "".
func some(text string, node func(text string) g.Node) g.Node {
	if text == "" {
		return nil
	}
	return node(text)
}

// classes returns the class attribute: first, and every class whose condition is true.
func classes(first string, more ...class) g.Node {
	all := []string{first}
	for _, c := range more {
		if c.is {
			all = append(all, c.name)
		}
	}
	return some(strings.TrimSpace(strings.Join(all, " ")), h.Class)
}

type class struct {
	name string
	is   bool
}

func unread(texts []string) g.Node {
	if len(texts) == 0 {
		return nil
	}
	return h.Section(h.Class("card warning"), h.Aria("labelledby", "unread"), lines(
		h.H2(h.ID("unread"), words("What was not examined")),
		list(texts),
	))
}

func list(texts []string) g.Node {
	return h.Ul(each(texts, func(text string) g.Node { return unclosed("li", words(text)) }))
}

// unclosed makes an element without its end tag, which HTML makes optional in lists. A large report
// has thousands of them.
func unclosed(name string, children ...g.Node) g.Node {
	return g.NodeFunc(func(w io.Writer) error {
		if _, err := io.WriteString(w, "<"+name+">"); err != nil {
			return err
		}
		return g.Group(children).Render(w)
	})
}

func severity(name string) g.Node { return h.Span(h.Class("severity"), words(name)) }

func command(line string) g.Node { return h.Div(h.Class("command"), code(line)) }

func code(line string) g.Node { return h.Pre(words(line)) }

// words makes a text node. Quotes are not escaped, because between tags they need not be and a page
// with a thousand commands has thousands of them.
func words(s string) g.Node { return g.Raw(betweenTags.Replace(s)) }

var betweenTags = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
