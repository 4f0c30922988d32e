package output

import (
	"fmt"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/output/html"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

func newHTMLBriefs(findings []finding.Brief) []html.Brief {
	var briefs []html.Brief
	for _, f := range findings {
		briefs = append(briefs, html.Brief{
			Class: severityClass(f.Severity), Severity: visible(string(f.Severity)), Code: visible(string(f.Code)), Check: visible(f.Check),
			Page: pageOf(f.Code), Message: visible(f.Message), Explain: visible(f.Explain),
		})
	}
	return briefs
}

// newHTMLToldBriefs are the findings with what to do about them.
func newHTMLToldBriefs(findings []finding.Brief) []html.Brief {
	briefs := newHTMLBriefs(findings)
	for i, f := range findings {
		t := tellBrief(f)
		briefs[i].Hits, briefs[i].Dont = visible(strings.Join(t.hits, "; ")), visible(t.dont)
		for _, s := range t.do {
			briefs[i].Steps = append(briefs[i].Steps, html.Step{Text: visible(s.text), Command: visible(s.command)})
		}
	}
	return briefs
}

// sourceFacts are where and when the objects were read.
func sourceFacts(s snapshot.Source, version, at string) []string {
	return []string{visible(placeOf(s)), visible(version), at}
}

func printTraceHTML(b *strings.Builder, t *trace.Trace, _ Options) error {
	verdict := fmt.Sprintf("Pod %s/%s: %s. %s", t.Pod.Namespace, t.Pod.Name, traceWaits[t.Verdict.State], t.Verdict.Message)
	about := sourceFacts(t.Source, t.KubernetesVersion, facts.Stamp(t.TakenAt))
	if t.Node != "" {
		about = append(about, visible("node "+string(t.Node)))
	}
	p := html.Trace{
		Frame:    newHTMLFrame("Volume trace", visible(verdict), t.Verdict.State == finding.NoWait, about...),
		Findings: newHTMLToldBriefs(t.Findings), Unread: unreadOf(t.Gaps, len(t.SkippedChecks)),
	}
	for i, v := range t.Volumes {
		p.Volumes = append(p.Volumes, newHTMLVolume(t, v, fmt.Sprintf("v%d", i+1)))
	}
	if t.Kubelet != nil {
		for _, s := range t.Kubelet.Statements {
			p.About = append(p.About, visible(fmt.Sprintf("the kubelet %s: %s", s.Bearing, s.Text)))
		}
	}
	return p.Write(b)
}

func newHTMLVolume(t *trace.Trace, v trace.VolumeTrace, id string) html.Volume {
	h := html.Volume{ID: id, Class: "info", Title: visible(traceTitle(v)), Notes: texts(v.Notes, visible)}
	for _, s := range v.Stages {
		broken := s.Stage == v.Broken || s.State == trace.StageBlocked
		h.Stages = append(h.Stages, html.Stage{Mark: stageMark(s, v), Text: stageText(s.Stage), Broken: broken})
		if !broken {
			continue
		}
		h.Class = "warning"
		if s.Overdue || s.State == trace.StageBlocked {
			h.Class = "error"
		}
		wait := html.Wait{Title: stageText(s.Stage) + ": " + stateText(s)}
		for _, fact := range stageFacts(t, s) {
			wait.Facts = append(wait.Facts, html.Fact{Label: fact.Label, Text: visible(fact.Text)})
		}
		h.Waits = append(h.Waits, wait)
	}
	return h
}

// unreadOf are the gaps, and how many checks they cost.
func unreadOf(gaps []snapshot.Gap, skipped int) []string {
	lines := texts(gaps, func(g snapshot.Gap) string { return visible(gapText(g)) })
	if skipped > 0 {
		lines = append(lines, count(skipped, "check")+" skipped, because something could not be read")
	}
	return lines
}

// traceTitle names a volume of a pod and what is behind it.
func traceTitle(v trace.VolumeTrace) string {
	title := v.Name + ": " + v.Type
	for _, part := range []struct{ label, text string }{{"", v.Claim}, {", PV", v.PersistentVolume}, {", driver", v.Driver}} {
		if part.text != "" {
			title += part.label + " " + part.text
		}
	}
	return title
}

// stageFacts say what a stage that is not over shows, and waits for; "" where nothing does.
func stageFacts(t *trace.Trace, s trace.Stage) []html.Fact {
	since := sinceText(t.TakenAt, s.Since)
	if since != "" && s.Overdue && s.UsualBound != "" {
		since += ", usually over within " + s.UsualBound
	}
	all := []html.Fact{
		{Label: "shows", Text: s.Detail}, {Label: "waits on", Text: s.On}, {Label: "since", Text: since}, {Label: "ends", Text: s.Ends},
	}
	for _, said := range s.Said {
		text := fmt.Sprintf("%s: %q", said.By, said.Text)
		if said.At != nil {
			text = fmt.Sprintf("%s (%s ago): %q", said.By, ago(t.TakenAt.Sub(said.At.Time)), said.Text)
		}
		all = append(all, html.Fact{Label: "said", Text: text}, html.Fact{Label: "means", Text: said.Means})
	}
	return all
}
