package output

import (
	"fmt"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/output/html"
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
	page := html.Preflight{
		Frame:  newHTMLFrame("Volume preflight", visible(fmt.Sprintf("Node %s: %s", p.Node, verdict)), len(p.Missing) == 0 && !p.Hangs() && !p.Stays() && len(p.Deletes) == 0, about...),
		Unread: append(unreadOf(p.Gaps, 0), texts(p.NotExamined, visible)...),
	}
	for _, alike := range briefsAlike(p) {
		brief := newHTMLBriefs(alike[:1])[0]
		if more := len(alike) - 1; more > 0 {
			brief.Message += fmt.Sprintf("; and %d more like it", more)
		}
		page.Findings = append(page.Findings, brief)
	}
	for _, s := range scenarios(p) {
		scenario := newHTMLScenario(s.id, visible(s.title), s.scenario)
		scenario.None = visible(noneWaits(p, s.scenario))
		page.Scenarios = append(page.Scenarios, scenario)
	}
	for _, list := range []html.List{
		{ID: "waiting", Title: "Waiting already because of the node", Items: texts(p.Waiting, func(w finding.Waiting) string { return visible(w.Pod) })},
		{ID: "controllers", Title: "Drivers that lose their only attacher with the node", Items: texts(p.Controllers, func(c preflight.Controller) string {
			return visible(controllerText(c))
		})},
		{ID: "deletes", Title: "Would be deleted, as the claims go once their pods have ended", Items: texts(p.Deletes, func(d preflight.Deletion) string {
			return visible(fmt.Sprintf("the disk of %s; to keep it: %s", d.PersistentVolume, d.Keep))
		})},
		{ID: "stranded", Title: "Would not come back, having no controller", Items: texts(p.Stranded, visible)},
		{ID: "room", Title: "Room on the other nodes", Items: texts(p.Room, func(r preflight.Room) string { return visible(roomText(r)) })},
		{ID: "timers", Title: "Timers", Items: texts(p.Timers, func(t preflight.Timer) string {
			return visible(fmt.Sprintf("%s: %s (%s)", t.Name, t.Value, t.Because))
		})},
	} {
		if len(list.Items) > 0 {
			page.Lists = append(page.Lists, list)
		}
	}
	return page.Write(b)
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

func newHTMLScenario(id, title string, s preflight.Scenario) html.Scenario {
	h := html.Scenario{ID: id, Title: title}
	for _, hangs := range finding.Alike(s.Hangs, func(h preflight.Hang) string { return h.Because }) {
		label := "Hangs: "
		if hangs[0].Perhaps {
			label = "May hang: "
		}
		h.Hangs = append(h.Hangs, visible(label+hangText(hangs, true)+": "+hangs[0].Because))
	}
	for _, waits := range grouped(s) {
		var pods, rows []string
		for _, w := range waits {
			pods = append(pods, w.Pod)
			row := fmt.Sprintf("%s, volume %s", w.Pod, w.PersistentVolume)
			if w.Controller != "" {
				row += ", made by " + w.Controller
			}
			rows = append(rows, visible(row))
		}
		h.Waits = append(h.Waits, html.Waits{
			Title:   visible(waitsTitle(count(len(distinct(pods)), "pod"), s, waits[0])),
			Because: visible(waits[0].Because), Pods: rows,
		})
	}
	return h
}
