package html

import (
	"io"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"
)

// Preflight is the page of a preflight.
type Preflight struct {
	Frame
	Scenarios []Scenario
	Lists     []List
	Findings  []Brief
	Unread    []string
}

// Scenario is the drain or the loss of the node.
type Scenario struct {
	ID, Title string
	// None is the sentence for a scenario in which no pod waits and nothing hangs.
	None  string
	Hangs []string
	Waits []Waits
}

// Waits are the pods that wait for the same reason.
type Waits struct {
	Title, Because string
	Pods           []string
}

// List is a list with a title.
type List struct {
	ID, Title string
	Items     []string
}

// Write writes the page.
func (p Preflight) Write(w io.Writer) error {
	return p.page(nil, h.Main(h.ID("findings"), h.TabIndex("-1"), h.Aria("label", "What would wait and hang"), lines(
		each(p.Scenarios, Scenario.node),
		each(p.Lists, func(l List) g.Node {
			return h.Section(h.Class("card info"), h.Aria("labelledby", l.ID), lines(h.H2(h.ID(l.ID), words(l.Title)), list(l.Items)))
		}),
		briefs(p.Findings),
		unread(p.Unread),
	))).Render(w)
}

func (s Scenario) node() g.Node {
	level := "info"
	if len(s.Hangs) > 0 {
		level = "error"
	}
	waits := each(s.Waits, func(w Waits) g.Node {
		return h.Details(h.Summary(words(w.Title)), lines(h.P(words(w.Because)), list(w.Pods)))
	})
	if s.None != "" {
		waits = lines(h.P(words(s.None)))
	}
	return h.Section(h.Class("card "+level), h.Aria("labelledby", s.ID), lines(
		h.H2(h.ID(s.ID), words(s.Title)),
		each(s.Hangs, func(text string) g.Node { return h.P(h.Class("what"), words(text)) }),
		waits,
	))
}
