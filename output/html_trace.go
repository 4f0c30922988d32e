package output

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

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
			Page: pageOf(f.Code), Message: visible(f.Message), Why: visible(f.Detail), Explain: visible(f.Explain),
		})
	}
	return briefs
}

// newHTMLToldBriefs returns the findings together with what to do about them.
func newHTMLToldBriefs(findings []finding.Brief, at time.Time) []html.Brief {
	briefs := newHTMLBriefs(findings)
	for i, f := range findings {
		t := tellBrief(f, at)
		briefs[i].Hits, briefs[i].Dont = visible(strings.Join(t.hits, "; ")), visible(t.dont)
		for _, s := range t.do {
			briefs[i].Steps = append(briefs[i].Steps, html.Step{Text: visible(s.text), Command: visible(s.command)})
		}
	}
	return briefs
}

// sourceFacts returns where and when the objects were read.
func sourceFacts(s snapshot.Source, version, at string) []string {
	return []string{visible(placeOf(s)), visible(version), at}
}

// printTraceHTML writes one page for all documents.
func printTraceHTML(b *strings.Builder, documents []trace.Document, _ Options) error {
	var p html.Trace
	var verdicts, about []string
	good := true
	for i, document := range documents {
		id := fmt.Sprintf("d%d", i+1)
		var findings []finding.Brief
		var at time.Time
		var unread []string
		switch d := document.(type) {
		case *trace.Trace:
			about = append(about, sourceFacts(d.Source, d.KubernetesVersion, facts.Stamp(d.TakenAt))...)
			if d.Node != "" {
				about = append(about, visible("node "+string(d.Node)))
			}
			if d.Kubelet != nil {
				for _, s := range d.Kubelet.Statements {
					about = append(about, visible(fmt.Sprintf("the kubelet %s: %s", s.Bearing, s.Text)))
				}
			}
			verdicts = append(verdicts, fmt.Sprintf("Pod %s/%s: %s%s. %s", d.Pod.Namespace, d.Pod.Name, paintVerdict(d, Options{}), stuckFor(d), d.Verdict.Message))
			unknown, wrong := d.Found(false)
			good = good && !unknown && !wrong
			asBefore := saidBefore(d)
			for n, v := range d.Volumes {
				p.Volumes = append(p.Volumes, newHTMLVolume(v, asBefore, fmt.Sprintf("%sv%d", id, n+1)))
			}
			findings, at, unread = d.Findings, d.TakenAt.Time, unreadOf(d.Gaps, len(d.SkippedChecks))
		case *trace.VolumeUse:
			about = append(about, sourceFacts(d.Source, d.KubernetesVersion, facts.Stamp(d.TakenAt))...)
			verdicts = append(verdicts, fmt.Sprintf("%s %s: %s. %s", d.Subject.Kind, subjectName(d.Subject), paintUse(d, Options{}), d.Verdict.Message))
			unknown, wrong := d.Found(false)
			good = good && !unknown && !wrong
			p.Uses = append(p.Uses, newHTMLUse(d, id))
			findings, at, unread = d.Findings, d.TakenAt.Time, unreadOf(d.Gaps, len(d.SkippedChecks))
		}
		for _, f := range newHTMLToldBriefs(findings, at) {
			if !slices.ContainsFunc(p.Findings, func(other html.Brief) bool { return reflect.DeepEqual(f, other) }) {
				p.Findings = append(p.Findings, f)
			}
		}
		p.Unread = append(p.Unread, unread...)
	}
	p.Unread = onceEach(p.Unread)
	p.Frame = newHTMLFrame("Volume trace", visible(strings.Join(verdicts, " ")), good, onceEach(about)...)
	return p.Write(b)
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

func newHTMLVolume(v trace.VolumeTrace, asBefore func(trace.VolumeTrace, trace.Stage) []html.Fact, id string) html.Volume {
	h := html.Volume{ID: id, Class: "info", Title: visible(traceTitle(v)), Notes: texts(v.Notes, visible)}
	for _, s := range v.Stages {
		broken := s.Stage == v.Broken || s.State == trace.StageBlocked
		h.Stages = append(h.Stages, html.Stage{Mark: stageMark(s, v), Text: stageText(s.Stage), Waits: broken, Fails: stageFails(s, v)})
		if !broken {
			continue
		}
		if stageFails(s, v) {
			h.Class = "error"
		} else if h.Class != "error" {
			h.Class = "warning"
		}
		wait := html.Wait{Title: stageText(s.Stage) + ": " + stateText(s)}
		for _, fact := range asBefore(v, s) {
			wait.Facts = append(wait.Facts, html.Fact{Label: fact.Label, Text: visible(fact.Text)})
		}
		h.Waits = append(h.Waits, wait)
	}
	return h
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
func saidBefore(t *trace.Trace) func(trace.VolumeTrace, trace.Stage) []html.Fact {
	first := map[string]string{}
	return func(v trace.VolumeTrace, s trace.Stage) []html.Fact {
		facts := stageFacts(t, s)
		key := fmt.Sprint(s.Stage, s.State, facts)
		if name, there := first[key]; there && len(s.Said) > 0 {
			return []html.Fact{{Label: "shows", Text: "the same as for volume " + name}}
		}
		first[key] = v.Name
		return facts
	}
}

// stageFacts returns what is known about a stage that is not done: what it shows, what it waits on,
// since when, and what ends it. Facts without text are left out.
func stageFacts(t *trace.Trace, s trace.Stage) []html.Fact {
	since := sinceText(t.TakenAt, s.Since)
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
