package diagnose

import (
	"cmp"
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
)

// waiting follows the volumes of every pod that may wait for one, and returns the traces of
// those that do or may, and of ended pods whose object stays.
func waiting(view *facts.View) []*trace.Trace {
	var traces []*trace.Trace
	for _, pod := range view.Snapshot.Pods {
		if !trace.MayWait(pod) {
			continue
		}
		if t := trace.OfPod(view, pod, nil); t.Verdict.State != finding.NoWait || t.Verdict.Stays() {
			traces = append(traces, t)
		}
	}
	return traces
}

// judge adjusts the verdicts to the findings about each pod.
func judge(traces []*trace.Trace, found []finding.Finding) {
	about := map[string][]finding.Finding{}
	for _, f := range found {
		for _, pod := range f.About() {
			about[pod] = append(about[pod], f)
		}
	}
	for _, t := range traces {
		t.Judge(about[podOf(t)])
	}
}

// lowerInTime makes an info of what is only suspected, and about pods that still have time, or may
// have: if they get what they wait for, it was not so.
func lowerInTime(found []finding.Finding, traces []*trace.Trace) {
	inTime := map[string]bool{}
	for _, t := range traces {
		inTime[podOf(t)] = t.Verdict.State == finding.InFlight || t.Verdict.Undated && !t.Stage().Overdue
	}
	for i, f := range found {
		about := f.About()
		if f.Confidence == finding.Suspected && len(about) > 0 && !slices.ContainsFunc(about, func(pod string) bool { return !inTime[pod] }) {
			found[i].Severity = finding.Info
		}
	}
}

// entries are the report's entries about the pods that wait.
func entries(traces []*trace.Trace) []finding.Waiting {
	list := make([]finding.Waiting, 0, len(traces))
	for _, t := range traces {
		v := t.Known().Verdict
		if v.State == finding.NoWait {
			continue
		}
		list = append(list, finding.Waiting{
			Pod: podOf(t), Node: string(t.Node), Verdict: v.State, Volume: v.Volume, Volumes: v.Volumes, Stage: string(v.Stage), Stages: names(v.Stages), Actor: v.Actor,
			Said: v.Said, Since: v.Since, DueAt: v.DueAt, Findings: []string{},
		})
	}
	order := []finding.WaitState{finding.Stuck, finding.Unsure, finding.InFlight}
	slices.SortFunc(list, func(a, b finding.Waiting) int {
		return cmp.Or(slices.Index(order, a.Verdict)-slices.Index(order, b.Verdict), cmp.Compare(a.Pod, b.Pod))
	})
	return list
}

func names(stages []trace.StageName) []string {
	var list []string
	for _, s := range stages {
		list = append(list, string(s))
	}
	return list
}

func podOf(t *trace.Trace) string { return t.Pod.Namespace + "/" + t.Pod.Name }

// keptOnNode reports whether a finding of warning or worse is about a volume that the pod, which is
// not stopped, keeps on its node.
func keptOnNode(t *trace.Trace, found []finding.Finding) bool {
	return t.Verdict.Stays() && t.Stage().Stage == trace.StageStopped && slices.ContainsFunc(found, func(f finding.Finding) bool {
		return f.Severity.AtLeast(finding.Warning) && f.Volume != "" && f.Node == t.Node &&
			slices.ContainsFunc(t.Volumes, func(v trace.VolumeTrace) bool { return v.Volume == f.Volume })
	})
}

// unanswered are the traces of pods that are stuck, as far as what could be read shows, and that no
// finding of warning or worse names.
func unanswered(traces []*trace.Trace, found []finding.Finding) []*trace.Trace {
	named := map[string]bool{}
	for _, f := range found {
		if !f.Severity.AtLeast(finding.Warning) {
			continue
		}
		for _, pod := range f.About() {
			named[pod] = true
		}
	}
	var list []*trace.Trace
	for _, t := range traces {
		if (t.Verdict.State == finding.Stuck || t.Verdict.Stays() || t.Verdict.Undated && t.Stage().Overdue) && !named[podOf(t)] && !keptOnNode(t, found) {
			list = append(list, t)
		}
	}
	return list
}
