package output

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/output/html"
)

// svg is the layout of a picture: a column of pods, the volume, and a column of nodes. A line at
// the left joins them, and each relation branches off from it. The picture fits a telephone without
// zooming.
type svg struct {
	html.Picture
	first int // where the first pod branches off
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

func (p picture) svg(id string) *html.Picture {
	s := &svg{Picture: html.Picture{
		ID: id, Width: svgWidth,
		Title:       "Who wants, holds and reports volume " + visible(p.name),
		Description: p.description(),
	}}
	title := "volume " + visible(p.name)
	if p.subject {
		title = visible(p.name)
		s.Title = "What is wrong, and which pods it affects: " + title
	}
	y := s.pods(p, 2)
	volume := y
	s.Boxes = append(s.Boxes, html.Box{X: 1, Y: volume, W: svgWidth - 2, H: 46, Volume: true})
	whole := (svgWidth - 20) * 4 / 29
	s.text(10, volume+18, middle(title, whole-3), p.subject)
	if p.subject {
		s.cross(svgWidth-16, volume+14)
	}
	s.Texts = append(s.Texts, html.Text{X: 10, Y: volume + 36, Text: middle(visible(p.unique), whole), Label: true})
	if volume > 2 {
		s.line(svgTrunk, s.first, svgTrunk, volume, edge{there: true})
		if !p.subject {
			s.tip(svgTrunk, volume, "down", false)
		}
	}
	s.nodes(p, volume+46)
	s.Caption = s.legend()
	return &s.Picture
}

// legend explains the marks that the picture has.
func (s *svg) legend() string {
	var marks []string
	if len(s.Crosses) > 0 {
		marks = append(marks, "a red cross marks what is wrong")
	}
	if slices.ContainsFunc(s.Lines, func(l html.Path) bool { return l.Missing }) {
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
			s.Texts = append(s.Texts, html.Text{X: svgColumn + 8, Y: y + 34, Text: middle("on node "+visible(pod.node), svgColumns), Label: true})
		}
		s.Boxes = append(s.Boxes, html.Box{X: svgColumn, Y: y, W: svgWidth - svgColumn - 1, H: height})
		s.text(svgColumn+8, y+18, middle("pod "+visible(pod.object), svgColumns), pod.broken)
		s.branch(y+height/2, pod.edge)
		if i == 0 {
			s.first = y + height/2
		}
		y += height + 8
	}
	if more := max(0, len(pods)-svgMost) + p.morePods; more > 0 {
		s.Texts = append(s.Texts, html.Text{X: svgColumn, Y: y + 12, Text: fmt.Sprintf("and %s more", count(more, "pod")), Label: true})
		y += 20
	}
	return y + 12
}

func (s *svg) nodes(p picture, top int) {
	y, last := top, top
	for i, n := range p.nodes {
		if i == svgMost {
			s.Texts = append(s.Texts, html.Text{X: svgColumn, Y: y + 24, Text: fmt.Sprintf("and %s more", count(len(p.nodes)-i+p.more, "node")), Label: true})
			y += 30
			break
		}
		y += 14
		rows := slices.DeleteFunc(slices.Clone(n.edges), func(e edge) bool { return e.relation == wants && e.there })
		s.Boxes = append(s.Boxes, html.Box{X: svgColumn, Y: y, W: svgWidth - svgColumn - 1, H: 24 + svgRow*len(rows)})
		s.text(svgColumn+8, y+17, middle("node "+visible(n.name), svgColumns), false)
		y += 24
		for _, e := range rows {
			s.Texts = append(s.Texts, html.Text{X: svgColumn + 8, Y: y + 19, Text: middle(visible(e.fact), svgColumns), Wrong: e.broken})
			last = y + 15
			s.branch(last, e)
			y += svgRow
		}
	}
	if last > top {
		s.line(svgTrunk, top, svgTrunk, last, edge{there: true})
	}
	s.Height = y + 4
}

// branch draws the edge from the line at the left to the column. The arrow points from the pod or
// node to the volume if it wants, uses or reports the volume, and from the volume to the node that
// holds it.
func (s *svg) branch(y int, e edge) {
	s.line(svgTrunk, y, svgColumn, y, e)
	s.Texts = append(s.Texts, html.Text{X: svgTrunk + 10, Y: y - 5, Text: relationLabels[e.relation], Label: true, Wrong: e.broken})
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
	s.Crosses = append(s.Crosses, html.Cross{X: x, Y: y, Path: fmt.Sprintf("M%d %dl8 8m0-8l-8 8", x-4, y-4)})
}

// line draws a horizontal or a vertical line.
func (s *svg) line(x1, y1, x2, y2 int, e edge) {
	end := fmt.Sprintf("H%d", x2)
	if x1 == x2 {
		end = fmt.Sprintf("V%d", y2)
	}
	s.Lines = append(s.Lines, html.Path{Path: fmt.Sprintf("M%d %d%s", x1, y1, end), Missing: !e.there, Wrong: e.broken})
}

func (s *svg) tip(x, y int, direction string, wrong bool) {
	shape := map[string]string{"left": "l8-5v10z", "right": "l-8-5v10z", "down": "l-5-8h10z"}[direction]
	s.Tips = append(s.Tips, html.Path{Path: fmt.Sprintf("M%d %d%s", x, y, shape), Wrong: wrong})
}

func (s *svg) text(x, y int, text string, wrong bool) {
	s.Texts = append(s.Texts, html.Text{X: x, Y: y, Text: text, Wrong: wrong})
}

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
