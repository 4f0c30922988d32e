package output

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
)

// svg is the layout of a picture: a column of pods, the volume, and a column of nodes. A line at
// the left joins them, and each relation branches off from it. The picture fits a telephone without
// zooming. Its coordinates are pixels from the upper left corner.
type svg struct {
	lines, tips, boxes, texts, crosses []g.Node
	// missing reports whether a line is dashed.
	missing bool
	height  int
	first   int // where the first pod branches off
}

// All measures are in pixels. A column of the 12 px fixed-width font is 7.25 px wide.
const (
	svgWidth   = 328
	svgTrunk   = 14  // x of the line at the left
	svgColumn  = 104 // x of the pods and nodes
	svgColumns = (svgWidth - svgColumn - 16) * 4 / 29
	svgRow     = 30
	// svgMost is the largest number of pods, and of nodes, that are drawn; the rest is counted.
	svgMost = 5
)

var relationLabels = map[check.Link]string{wants: "wants", holds: "holds", reports: "reports", uses: "in use", affects: "affects"}

// svg draws the picture, and returns it with its caption.
func (p picture) svg(id string) (node g.Node, caption string) {
	s := &svg{}
	name, title := "volume "+visible(p.name), "Who wants, holds and reports volume "+visible(p.name)
	if p.subject {
		name = visible(p.name)
		title = "What is wrong, and which pods it affects: " + name
	}
	y := s.pods(p, 2)
	volume := y
	s.box(1, volume, svgWidth-2, 46, htmlClass{"volume", true})
	whole := (svgWidth - 20) * 4 / 29
	s.text(10, volume+18, middle(name, whole-3), htmlClass{"wrong", p.subject})
	if p.subject {
		s.cross(svgWidth-16, volume+14)
	}
	s.label(10, volume+36, middle(visible(p.unique), whole))
	if volume > 2 {
		s.line(svgTrunk, s.first, svgTrunk, volume, edge{there: true})
		if !p.subject {
			s.tip(svgTrunk, volume, "down", false)
		}
	}
	s.nodes(p, volume+46)
	return h.SVG(g.Attr("viewBox", fmt.Sprintf("0 0 %d %d", svgWidth, s.height)), pixels("width", svgWidth), pixels("height", s.height),
		h.Role("img"), h.Aria("labelledby", id+"-t "+id+"-d"), htmlLines(
			h.TitleEl(h.ID(id+"-t"), htmlText(title)),
			g.El("desc", h.ID(id+"-d"), htmlText(p.description())),
			htmlLines(s.lines...), htmlLines(s.tips...), htmlLines(s.boxes...), htmlLines(s.texts...), htmlLines(s.crosses...),
		)), s.legend()
}

// legend explains the marks that the picture has.
func (s *svg) legend() string {
	var marks []string
	if len(s.crosses) > 0 {
		marks = append(marks, "a red cross marks what is wrong")
	}
	if s.missing {
		marks = append(marks, "a dashed line marks what is missing")
	}
	if len(marks) == 0 {
		return ""
	}
	text := strings.Join(marks, "; ") + "."
	return strings.ToUpper(text[:1]) + text[1:]
}

// pods draws the pods that want the volume from y down, and returns the y of the volume.
func (s *svg) pods(p picture, y int) int {
	type pod struct {
		edge
		node string
	}
	var pods []pod
	for _, e := range p.waiting {
		pods = append(pods, pod{e, ""})
	}
	for _, n := range p.nodes {
		for _, e := range n.edges {
			if e.relation == wants && e.there {
				pods = append(pods, pod{e, n.name})
			}
		}
	}
	if len(pods) == 0 {
		return y
	}
	for i, pod := range pods {
		if i == svgMost {
			break
		}
		height := 28
		if pod.node != "" {
			height = 42
			s.label(svgColumn+8, y+34, middle("on node "+visible(pod.node), svgColumns))
		}
		s.box(svgColumn, y, svgWidth-svgColumn-1, height)
		s.text(svgColumn+8, y+18, middle("pod "+visible(pod.object), svgColumns), htmlClass{"wrong", pod.broken})
		s.branch(y+height/2, pod.edge)
		if i == 0 {
			s.first = y + height/2
		}
		y += height + 8
	}
	if more := max(0, len(pods)-svgMost) + p.morePods; more > 0 {
		s.label(svgColumn, y+12, fmt.Sprintf("and %s more", count(more, "pod")))
		y += 20
	}
	return y + 12
}

func (s *svg) nodes(p picture, top int) {
	y, last := top, top
	for i, n := range p.nodes {
		if i == svgMost {
			s.label(svgColumn, y+24, fmt.Sprintf("and %s more", count(len(p.nodes)-i+p.more, "node")))
			y += 30
			break
		}
		y += 14
		rows := slices.DeleteFunc(slices.Clone(n.edges), func(e edge) bool { return e.relation == wants && e.there })
		s.box(svgColumn, y, svgWidth-svgColumn-1, 24+svgRow*len(rows))
		s.text(svgColumn+8, y+17, middle("node "+visible(n.name), svgColumns))
		y += 24
		for _, e := range rows {
			s.text(svgColumn+8, y+19, middle(visible(e.fact), svgColumns), htmlClass{"wrong", e.broken})
			last = y + 15
			s.branch(last, e)
			y += svgRow
		}
	}
	if last > top {
		s.line(svgTrunk, top, svgTrunk, last, edge{there: true})
	}
	s.height = y + 4
}

// branch draws the edge from the line at the left to the column. The arrow points from the pod or
// node to the volume if it wants, uses or reports the volume, and from the volume to the node that
// holds it.
func (s *svg) branch(y int, e edge) {
	s.line(svgTrunk, y, svgColumn, y, e)
	s.label(svgTrunk+10, y-5, relationLabels[e.relation], htmlClass{"wrong", e.broken})
	if e.there {
		if e.relation == holds || e.relation == affects {
			s.tip(svgColumn, y, "right", e.broken)
		} else {
			s.tip(svgTrunk, y, "left", e.broken)
		}
	}
	if e.broken {
		s.cross(svgColumn-20, y)
	}
}

func (s *svg) cross(x, y int) {
	s.crosses = append(s.crosses, g.El("g", h.Class("cross"), g.El("circle", pixels("cx", x), pixels("cy", y), g.Attr("r", "8")), path(fmt.Sprintf("M%d %dl8 8m0-8l-8 8", x-4, y-4))))
}

// line draws a horizontal or a vertical line.
func (s *svg) line(x1, y1, x2, y2 int, e edge) {
	end := fmt.Sprintf("H%d", x2)
	if x1 == x2 {
		end = fmt.Sprintf("V%d", y2)
	}
	s.lines = append(s.lines, path(fmt.Sprintf("M%d %d%s", x1, y1, end), htmlClasses("line", htmlClass{"missing", !e.there}, htmlClass{"wrong", e.broken})))
	s.missing = s.missing || !e.there
}

func (s *svg) tip(x, y int, direction string, wrong bool) {
	shape := map[string]string{"left": "l8-5v10z", "right": "l-8-5v10z", "down": "l-5-8h10z"}[direction]
	s.tips = append(s.tips, path(fmt.Sprintf("M%d %d%s", x, y, shape), htmlClasses("tip", htmlClass{"wrong", wrong})))
}

func (s *svg) box(x, y, width, height int, classes ...htmlClass) {
	s.boxes = append(s.boxes, g.El("rect", htmlClasses("box", classes...), pixels("x", x), pixels("y", y), pixels("width", width), pixels("height", height)))
}

func (s *svg) text(x, y int, text string, classes ...htmlClass) {
	s.texts = append(s.texts, g.El("text", htmlClasses("", classes...), pixels("x", x), pixels("y", y), htmlText(text)))
}

// label draws a text that is less important than the others.
func (s *svg) label(x, y int, text string, classes ...htmlClass) {
	s.text(x, y, text, append([]htmlClass{{"label", true}}, classes...)...)
}

func path(d string, more ...g.Node) g.Node { return g.El("path", g.Group(more), g.Attr("d", d)) }

func pixels(name string, value int) g.Node { return g.Attr(name, strconv.Itoa(value)) }

// description says in words everything that the picture shows, and what it leaves out.
func (p picture) description() string {
	var facts []string
	if p.subject {
		facts = append(facts, "wrong: "+visible(p.name))
	}
	for _, e := range p.waiting {
		facts = append(facts, visible(e.sentence("")))
	}
	for i, n := range p.nodes {
		if i == svgMost {
			facts = append(facts, fmt.Sprintf("%s more", count(len(p.nodes)-i+p.more, "node")))
			break
		}
		for _, e := range n.edges {
			facts = append(facts, visible(e.sentence(n.name)))
		}
	}
	if len(facts) == 0 {
		return "No pod wants it and no node has it."
	}
	return strings.ToUpper(facts[0][:1]) + strings.Join(facts, "; ")[1:] + "."
}

// middle shortens s to limit columns and keeps both ends: names of volumes and pods often differ
// only at the end.
func middle(s string, limit int) string {
	if displaywidth.String(s) <= limit {
		return s
	}
	tail := len(s)
	for used := 0; tail > 0; {
		r, size := utf8.DecodeLastRuneInString(s[:tail])
		if used += displaywidth.Rune(r); used > limit/3 {
			break
		}
		tail -= size
	}
	return cut(s, limit-1-limit/3) + "…" + s[tail:]
}
