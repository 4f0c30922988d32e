package output

import (
	"fmt"
	"slices"
	"strings"
	"time"

	g "maragu.dev/gomponents"
	h "maragu.dev/gomponents/html"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// sourceFacts returns where and when the objects were read.
func sourceFacts(s snapshot.Source, version, at string) []string {
	return []string{placeOf(s), version, at}
}

// printTraceHTML writes one page for all documents.
func printTraceHTML(b *strings.Builder, documents []trace.Document, _ Options) error {
	var verdicts, about, unread []string
	var uses, volumes []g.Node
	var briefs briefCards
	good := true
	for i, document := range documents {
		id := fmt.Sprintf("d%d", i+1)
		var findings []finding.Brief
		var at time.Time
		switch d := document.(type) {
		case *trace.Trace:
			about = append(about, sourceFacts(d.Source, d.KubernetesVersion, facts.Stamp(d.TakenAt))...)
			if d.Node != "" {
				about = append(about, "node "+string(d.Node))
			}
			if d.Kubelet != nil {
				for _, s := range d.Kubelet.Statements {
					about = append(about, fmt.Sprintf("the kubelet %s: %s", s.Bearing, s.Text))
				}
			}
			verdicts = append(verdicts, fmt.Sprintf("Pod %s/%s: %s%s. %s", d.Pod.Namespace, d.Pod.Name, paintVerdict(d, Options{}), stuckFor(d), d.Verdict.Message))
			unknown, wrong := d.Found(false)
			good = good && !unknown && !wrong
			asBefore := saidBefore(d)
			for n, v := range d.Volumes {
				volumes = append(volumes, htmlVolume(v, asBefore, fmt.Sprintf("%sv%d", id, n+1)))
			}
			findings, at, unread = d.Findings, d.TakenAt.Time, append(unread, unreadOf(d.Gaps, len(d.SkippedChecks))...)
		case *trace.VolumeUse:
			about = append(about, sourceFacts(d.Source, d.KubernetesVersion, facts.Stamp(d.TakenAt))...)
			verdicts = append(verdicts, fmt.Sprintf("%s %s: %s. %s", d.Subject.Kind, subjectName(d.Subject), paintUse(d, Options{}), d.Verdict.Message))
			unknown, wrong := d.Found(false)
			good = good && !unknown && !wrong
			uses = append(uses, htmlUse(d, id))
			findings, at, unread = d.Findings, d.TakenAt.Time, append(unread, unreadOf(d.Gaps, len(d.SkippedChecks))...)
		}
		for _, f := range findings {
			briefs.add(f, tellBrief(f, at))
		}
	}
	verdict := strings.Join(verdicts, " ")
	if len(uses)+len(volumes) == 0 {
		volumes = append(volumes, h.P(h.Class("card"), htmlText(verdict)))
	}
	return htmlPage{
		title: "Volume trace", verdict: verdict, good: good, about: onceEach(about), label: "Volumes, stage by stage",
		main: htmlLines(htmlLines(uses...), htmlLines(volumes...), htmlLines(briefs.nodes...), htmlUnread(onceEach(unread))),
	}.write(b)
}

// briefCards are the cards of findings that a trace or a preflight names, each once.
type briefCards struct {
	nodes []g.Node
	texts []string // of the cards, without their IDs
}

// add makes the card of the finding, with what the telling has to do and not to do.
func (c *briefCards) add(f finding.Brief, t telling) {
	card := func(id string) g.Node {
		return h.Article(h.Class("card "+severityClass(f.Severity)), h.ID(id), h.Aria("labelledby", id+"-title"), htmlLines(
			h.H2(h.ID(id+"-title"), htmlSeverity(f.Severity), htmlText(" "), h.A(h.Href(pageOf(f.Code)), h.Rel("noreferrer"), htmlText(string(f.Code)+" "+f.Check))),
			h.P(h.Class("what"), htmlText(t.what)),
			htmlSteps(t.do),
			htmlTerms([]fact{{"Hits", strings.Join(t.hits, "; ")}, {"Do not", t.dont}, {"Why", t.why}}),
			htmlCommand(f.Explain),
		))
	}
	var text strings.Builder
	_ = card("").Render(&text) // a strings.Builder never fails
	if !slices.Contains(c.texts, text.String()) {
		c.nodes, c.texts = append(c.nodes, card(fmt.Sprintf("f%d", len(c.nodes)))), append(c.texts, text.String())
	}
}

// onceEach keeps the first of equal texts.
func onceEach(texts []string) []string {
	var kept []string
	for _, text := range texts {
		if !slices.Contains(kept, text) {
			kept = append(kept, text)
		}
	}
	return kept
}

func htmlVolume(v trace.VolumeTrace, asBefore func(trace.VolumeTrace, trace.Stage) []fact, id string) g.Node {
	class := "info"
	var stages, waits []g.Node
	for _, s := range v.Stages {
		broken, fails := s.Stage == v.Broken || s.State == trace.StageBlocked, stageFails(s, v)
		text := htmlText(stageMark(s, v) + " " + stageText(s.Stage))
		switch {
		case fails:
			text = h.Strong(h.Class("at fails"), text)
		case broken:
			text = h.Strong(h.Class("at"), text)
		}
		stages = append(stages, h.Li(text))
		if !broken {
			continue
		}
		if fails {
			class = "error"
		} else if class != "error" {
			class = "warning"
		}
		waits = append(waits, h.Div(h.H3(htmlText(stageText(s.Stage)+": "+stateText(s))), htmlTerms(asBefore(v, s))))
	}
	return h.Section(h.Class("card "+class), h.Aria("labelledby", id), htmlLines(
		h.H2(h.ID(id), htmlText(traceTitle(v))),
		h.Ol(h.Class("stages"), htmlLines(stages...)),
		htmlLines(waits...),
		htmlEach(v.Notes, func(note string) g.Node { return h.P(htmlText("Note: " + note)) }),
	))
}

// unreadOf returns a line for each reason of gaps, and one line that counts the checks skipped because of the
// gaps.
func unreadOf(gaps []snapshot.Gap, skipped int) []string {
	lines := texts(gapsTogether(gaps...), visible)
	if skipped > 0 {
		lines = append(lines, count(skipped, "check")+" skipped, because something could not be read")
	}
	return lines
}

// traceTitle returns a title from the name of the pod's volume, its claim, its PersistentVolume and
// its driver.
func traceTitle(v trace.VolumeTrace) string {
	title := v.Name + ": " + v.Type
	for _, part := range []struct{ label, text string }{{"", v.Claim}, {", PV", v.PersistentVolume}, {", driver", v.Driver}} {
		if part.text != "" {
			title += part.label + " " + part.text
		}
	}
	return title
}

// saidBefore returns stageFacts for the volumes of the trace in their order. Where several volumes wait
// for the same, only the first has the facts, and the others name it.
func saidBefore(t *trace.Trace) func(trace.VolumeTrace, trace.Stage) []fact {
	first := map[string]string{}
	return func(v trace.VolumeTrace, s trace.Stage) []fact {
		facts := stageFacts(t, s)
		key := fmt.Sprint(s.Stage, s.State, facts)
		if name, there := first[key]; there && len(s.Said) > 0 {
			return []fact{{"shows", "the same as for volume " + name}}
		}
		first[key] = v.Name
		return facts
	}
}

// stageFacts returns what is known about a stage that is not done: what it shows, what it waits on,
// since when, and what ends it. Facts without text are left out.
func stageFacts(t *trace.Trace, s trace.Stage) []fact {
	since := sinceText(t.TakenAt, s.Since)
	all := []fact{
		{"shows", s.Detail}, {"waits on", s.On}, {"since", since}, {"ends", s.Ends},
	}
	for _, said := range s.Said {
		text := fmt.Sprintf("%s: %q", said.By, said.Text)
		if said.At != nil {
			text = fmt.Sprintf("%s (%s ago): %q", said.By, ago(t.TakenAt.Sub(said.At.Time)), said.Text)
		}
		all = append(all, fact{"said", text}, fact{"means", said.Means})
	}
	return all
}
