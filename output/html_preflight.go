package output

import (
	"fmt"
	"io"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
)

type htmlPreflight struct {
	htmlFrame
	Scenarios []htmlScenario
	Lists     []htmlList
	Findings  []htmlBrief
	Unread    []string
}

// htmlScenario is the drain or the loss; each of Waits are all pods that wait alike.
type htmlScenario struct {
	ID, Title string
	Hangs     []string
	Waits     []htmlWaits
}

type htmlWaits struct {
	Title, Because string
	Pods           []string
}

type htmlList struct {
	ID, Title string
	Items     []string
}

func printPreflightHTML(w io.Writer, p *preflight.Preflight, _ Options) error {
	verdict, why := preflightAnswer(p)
	if why != "" {
		verdict += ": " + why
	}
	about := sourceFacts(p.Source, p.KubernetesVersion, facts.Stamp(p.TakenAt))
	if !p.Ready {
		about = append(about, "the node is not Ready")
	}
	h := htmlPreflight{
		htmlFrame: newHTMLFrame("Volume preflight", visible(fmt.Sprintf("Node %s: %s", p.Node, verdict)), len(p.Missing) == 0 && !p.Hangs(), about...),
		Findings:  newHTMLBriefs(p.Findings), Unread: unreadOf(p.Gaps, 0),
	}
	for _, name := range p.NotExamined {
		h.Unread = append(h.Unread, visible(name))
	}
	for _, s := range []struct {
		id, title string
		scenario  preflight.Scenario
	}{{"drain", "If it were drained now", p.Drain}, {"loss", "If it were lost now", p.Loss}} {
		h.Scenarios = append(h.Scenarios, newHTMLScenario(s.id, s.title, s.scenario))
	}
	stranded := htmlList{ID: "stranded", Title: "Would not come back, having no controller"}
	for _, pod := range p.Stranded {
		stranded.Items = append(stranded.Items, visible(pod))
	}
	room := htmlList{ID: "room", Title: "Room on the other nodes"}
	for _, r := range p.Room {
		room.Items = append(room.Items, visible(roomText(r)))
	}
	timers := htmlList{ID: "timers", Title: "Timers"}
	for _, t := range p.Timers {
		timers.Items = append(timers.Items, visible(fmt.Sprintf("%s: %s (%s)", t.Name, t.Value, t.Because)))
	}
	for _, list := range []htmlList{stranded, room, timers} {
		if len(list.Items) > 0 {
			h.Lists = append(h.Lists, list)
		}
	}
	return page.ExecuteTemplate(w, "preflight.tmpl", h)
}

func newHTMLScenario(id, title string, s preflight.Scenario) htmlScenario {
	h := htmlScenario{ID: id, Title: title}
	for _, hangs := range finding.Alike(s.Hangs, func(h preflight.Hang) string { return h.Because }) {
		h.Hangs = append(h.Hangs, visible(hangText(hangs, true)+": "+hangs[0].Because))
	}
	for _, waits := range grouped(s.Waits) {
		var pods, rows []string
		for _, w := range waits {
			pods = append(pods, w.Pod)
			row := fmt.Sprintf("%s, volume %s", w.Pod, w.PersistentVolume)
			if w.Controller != "" {
				row += ", made by " + w.Controller
			}
			rows = append(rows, visible(row))
		}
		h.Waits = append(h.Waits, htmlWaits{
			Title:   visible(fmt.Sprintf("%s: wait for %s, at most %s", count(len(distinct(pods)), "pod"), waits[0].For, longest(waits[0]))),
			Because: visible(waits[0].Because), Pods: rows,
		})
	}
	return h
}
