package diagnose_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// toldTwice are the pairs of causes in the report that explain the same wait of one pod, each
// by both codes: both name the pod, and one volume, or one driver on one node.
func toldTwice(r *finding.Report) (pairs []string) {
	roots := slices.DeleteFunc(r.Roots(), func(tree []finding.Finding) bool { return !tree[0].Severity.AtLeast(finding.Warning) })
	for i, a := range roots {
		for _, b := range roots[:i] {
			if slices.ContainsFunc(r.Waiting, func(w finding.Waiting) bool {
				return w.Verdict == finding.Stuck && anyNames(a, w.Pod) && anyNames(b, w.Pod)
			}) && ofOneVolume(a[0], b[0]) {
				codes := []string{string(a[0].Code), string(b[0].Code)}
				slices.Sort(codes)
				pairs = append(pairs, strings.Join(codes, " "))
			}
		}
	}
	return pairs
}

func anyNames(tree []finding.Finding, pod string) bool {
	return slices.ContainsFunc(tree, func(f finding.Finding) bool { return f.Names(pod) })
}

// ofOneVolume reports whether the findings may be about the same volume.
func ofOneVolume(a, b finding.Finding) bool {
	return a.PersistentVolume == "" || b.PersistentVolume == "" || a.PersistentVolume == b.PersistentVolume
}

// TestToldTwice: toldTwice notices two causes of one wait.
func TestToldTwice(t *testing.T) {
	about := func(code finding.Code, causedBy string) finding.Finding {
		return finding.Finding{Code: code, Severity: finding.Error, Fingerprint: string(code), CausedBy: causedBy, PersistentVolume: "pv", Pods: []string{"a/web"}}
	}
	waiting := []finding.Waiting{{Pod: "a/web", Verdict: finding.Stuck}}
	for causedBy, want := range map[string]int{"": 1, "VD614": 0} {
		r := finding.New(finding.Report{Findings: []finding.Finding{about("VD614", ""), about("VD104", causedBy)}, Waiting: waiting})
		if pairs := toldTwice(r); len(pairs) != want {
			t.Errorf("caused by %q: %q", causedBy, pairs)
		}
	}
}

// eachReport looks at the report on each case of the corpus and on each thread.
func eachReport(t *testing.T, look func(name string, r *finding.Report)) {
	t.Helper()
	for _, c := range corpus(t) {
		look(c.name, diagnose.Diagnose(c.snapshot(t), diagnose.Options{Reconcile: c.settings}))
	}
	for _, th := range readThreads(t) {
		look(th.name, diagnose.Diagnose(th.cluster, diagnose.Options{}))
	}
}

// TestOneChainIsToldOnce: no report explains the wait of a pod by two causes side by side where
// one brings about the other.
func TestOneChainIsToldOnce(t *testing.T) {
	look := func(name string, r *finding.Report) {
		for _, pair := range toldTwice(r) {
			t.Errorf("%s tells two causes of one wait: %s", name, pair)
		}
	}
	eachReport(t, look)
}

// TestSeverityMeansOneThing: no pod waits for good without an error, except in the first
// minutes of a conflict, which a hand-over may end. Where all findings about a pod stay,
// whatever their severity, it waits for good. A failure that ends by itself is no error, and a
// warning only where a pod has waited beyond the usual time. No finding says of a wait of half
// an hour that it ends by itself without saying when.
func TestSeverityMeansOneThing(t *testing.T) {
	const young = 10 * time.Minute
	const long = 30 * time.Minute
	good, heals := 0, 0
	look := func(name string, r *finding.Report) {
		for _, w := range r.Waiting {
			if w.Verdict != finding.Stuck {
				continue
			}
			about := slices.DeleteFunc(slices.Clone(r.Findings), func(f finding.Finding) bool { return !slices.Contains(f.Pods, w.Pod) })
			stays := func(f finding.Finding) bool {
				return f.Stays() && (f.Since == nil || r.TakenAt.Sub(f.Since.Time) >= young)
			}
			mayEnd := func(f finding.Finding) bool { return !stays(f) }
			if !slices.ContainsFunc(about, func(f finding.Finding) bool { return stays(f) && f.Severity.AtLeast(finding.Warning) }) &&
				(len(about) == 0 || slices.ContainsFunc(about, mayEnd)) {
				continue
			}
			if good++; !slices.ContainsFunc(about, func(f finding.Finding) bool { return f.Severity == finding.Error }) {
				t.Errorf("%s: pod %s waits for good, and no error says so: %s", name, w.Pod, about[0].Message)
			}
		}
		for _, f := range r.Findings {
			if !f.SelfHeals.Will || f.Confidence != "" {
				continue
			}
			heals++
			late := slices.ContainsFunc(r.Waiting, func(w finding.Waiting) bool { return w.Verdict == finding.Stuck && f.Names(w.Pod) })
			if f.Severity == finding.Error || f.Severity == finding.Warning && !late {
				t.Errorf("%s: %s is a %s, and ends by itself: %s: %s", name, f.Code, f.Severity, f.Message, f.SelfHeals.Because)
			}
			if late && f.SelfHeals.After == "" && f.Since != nil && r.TakenAt.Sub(f.Since.Time) >= long {
				t.Errorf("%s: %s ends by itself, at no time, and a pod has waited since %s: %s", name, f.Code, f.Since, f.Message)
			}
		}
	}
	eachReport(t, look)
	if good < 400 || heals < 20 {
		t.Errorf("%d pods wait for good and %d findings end by themselves: this shows little", good, heals)
	}
}
