package output

import (
	"fmt"
	"strings"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
)

func printPreflightHTML(b *strings.Builder, p *preflight.Preflight, _ Options) error {
	verdict, why := preflightAnswer(p)
	if why != "" {
		verdict += ": " + why
	}
	about := sourceFacts(p.Source, p.KubernetesVersion, facts.Stamp(p.TakenAt))
	if p.Ready != nil && !*p.Ready {
		about = append(about, "the node is not Ready")
	}
	var briefs briefCards
	for _, alike := range briefsAlike(p) {
		t := telling{what: alike[0].Message, why: alike[0].Detail}
		if more := len(alike) - 1; more > 0 {
			t.what += fmt.Sprintf("; and %d more like it", more)
		}
		briefs.add(alike[0], t)
	}
	var lists []g.Node
	for _, list := range []struct {
		id, title string
		items     []string
	}{
		{"waiting", "Waiting already because of the node", texts(p.Waiting, func(w finding.Waiting) string { return w.Pod })},
		{"controllers", "Drivers that lose their only attacher with the node", texts(p.Controllers, controllerText)},
		{"deletes", "Would be deleted, as the claims go once their pods have ended", texts(p.Deletes, func(d preflight.Deletion) string {
			return fmt.Sprintf("the disk of %s; to keep it: %s", d.PersistentVolume, d.Keep)
		})},
		{"stranded", "Would not come back, having no controller", p.Stranded},
		{"room", "Room on the other nodes", texts(p.Room, roomText)},
		{"timers", "Timers", texts(p.Timers, func(t preflight.Timer) string { return fmt.Sprintf("%s: %s (%s)", t.Name, t.Value, t.Because) })},
	} {
		if len(list.items) > 0 {
			lists = append(lists, h.Section(h.Class("card info"), h.Aria("labelledby", list.id), htmlLines(h.H2(h.ID(list.id), htmlText(list.title)), htmlList(list.items))))
		}
	}
	return htmlPage{
		title: "Volume preflight", verdict: fmt.Sprintf("Node %s: %s", p.Node, verdict),
		good:  len(p.Missing) == 0 && !p.Hangs() && !p.Stays() && len(p.Deletes) == 0,
		about: about, label: "What would wait and hang",
		main: htmlLines(
			htmlEach(scenarios(p), func(s scenarioTitle) g.Node { return htmlScenario(s, noneWaits(p, s.scenario)) }),
			htmlLines(lists...),
			htmlLines(briefs.nodes...),
			htmlUnread(append(unreadOf(p.Gaps, 0), p.NotExamined...)),
		),
	}.write(b)
}

// waitsTitle is the heading above the wait of these pods.
func waitsTitle(pods string, s preflight.Scenario, w preflight.Wait) string {
	switch most := longest(s, w); {
	case w.Never:
		return pods + " would not come back by itself"
	case s.HangOf(w) != nil:
		return fmt.Sprintf("%s: wait for %s, which %s", pods, w.For, most)
	case w.AtMost == "":
		return fmt.Sprintf("%s: wait for %s", pods, w.For)
	default:
		return fmt.Sprintf("%s: wait for %s, at most %s", pods, w.For, most)
	}
}

// htmlScenario makes the card of a scenario. none is the sentence for one in which no pod waits and
// nothing hangs.
func htmlScenario(s scenarioTitle, none string) g.Node {
	level := "info"
	var hangs []g.Node
	for _, alike := range finding.Alike(s.scenario.Hangs, func(h preflight.Hang) string { return h.Because }) {
		level = "error"
		label := "Hangs: "
		if alike[0].Perhaps {
			label = "May hang: "
		}
		hangs = append(hangs, h.P(h.Class("what"), htmlText(label+hangText(alike, true)+": "+alike[0].Because)))
	}
	waits := htmlEach(grouped(s.scenario), func(waits []preflight.Wait) g.Node {
		var pods, rows []string
		for _, w := range waits {
			pods = append(pods, w.Pod)
			row := fmt.Sprintf("%s, volume %s", w.Pod, w.PersistentVolume)
			if w.Controller != "" {
				row += ", made by " + w.Controller
			}
			rows = append(rows, row)
		}
		title := waitsTitle(count(len(distinct(pods)), "pod"), s.scenario, waits[0])
		return h.Details(h.Summary(htmlText(title)), htmlLines(h.P(htmlText(waits[0].Because)), htmlList(rows)))
	})
	if none != "" {
		waits = htmlLines(h.P(htmlText(none)))
	}
	return h.Section(h.Class("card "+level), h.Aria("labelledby", s.id), htmlLines(
		h.H2(h.ID(s.id), htmlText(s.title)),
		htmlLines(hangs...),
		waits,
	))
}
