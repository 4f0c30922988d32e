package html

import (
	"fmt"
	"strconv"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// Picture is a drawing. Its coordinates are pixels from the upper left corner. Description says in
// words everything that the picture shows.
type Picture struct {
	ID, Title, Description, Caption string
	Width, Height                   int
	Lines                           []Path
	Tips                            []Path
	Boxes                           []Box
	Texts                           []Text
	Crosses                         []Cross
}

// Path is a line or the tip of an arrow.
type Path struct {
	Path           string
	Missing, Wrong bool
}

// Box is a pod, a node or the volume.
type Box struct {
	X, Y, W, H int
	Volume     bool
}

// Text is a line of text.
type Text struct {
	X, Y         int
	Text         string
	Label, Wrong bool
}

// Cross marks what is wrong.
type Cross struct {
	X, Y int
	Path string
}

func (p *Picture) node() g.Node {
	return h.SVG(g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", p.Width, p.Height)), number("width", p.Width), number("height", p.Height),
		h.Role("img"), h.Aria("labelledby", p.ID+"-t "+p.ID+"-d"), lines(
			h.TitleEl(h.ID(p.ID+"-t"), words(p.Title)),
			g.El("desc", h.ID(p.ID+"-d"), words(p.Description)),
			each(p.Lines, func(l Path) g.Node {
				return path(l.Path, classes("line", class{"missing", l.Missing}, class{"wrong", l.Wrong}))
			}),
			each(p.Tips, func(t Path) g.Node { return path(t.Path, classes("tip", class{"wrong", t.Wrong})) }),
			each(p.Boxes, func(b Box) g.Node {
				return g.El("rect", classes("box", class{"volume", b.Volume}), number("x", b.X), number("y", b.Y), number("width", b.W), number("height", b.H))
			}),
			each(p.Texts, func(t Text) g.Node {
				return g.El("text", classes("", class{"label", t.Label}, class{"wrong", t.Wrong}), number("x", t.X), number("y", t.Y), words(t.Text))
			}),
			each(p.Crosses, func(c Cross) g.Node {
				return g.El("g", h.Class("cross"), g.El("circle", number("cx", c.X), number("cy", c.Y), number("r", 8)), path(c.Path))
			}),
		))
}

func path(d string, more ...g.Node) g.Node { return g.El("path", g.Group(more), g.Attr("d", d)) }

func number(name string, value int) g.Node { return g.Attr(name, strconv.Itoa(value)) }
