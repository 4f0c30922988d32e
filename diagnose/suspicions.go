package diagnose

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
)

// patience is how far ahead suspicions look. A judgement: no check grants a wait more time, and
// nobody waits longer for an answer.
const patience = time.Hour

// suspicions are what the checks would find later if nothing changed, where it is about pods
// that are stuck now and that no finding names.
func suspicions(view *facts.View, runs []*check.Run, found []finding.Finding, traces []*trace.Trace) []finding.Finding {
	left, certain, inTime := sets.New[string](), sets.New[string](), sets.New[string]()
	for _, t := range traces {
		if t.Verdict.State == finding.InFlight {
			inTime.Insert(podOf(t))
		}
	}
	for _, t := range unanswered(traces, found) {
		left.Insert(podOf(t))
	}
	if len(left) == 0 {
		return nil
	}
	for _, f := range found {
		certain.Insert(f.Fingerprint)
	}
	later, again := view.Later(patience), runAgain(runs, patience)
	suspected := slices.DeleteFunc(foundBy(later, again), func(f finding.Finding) bool {
		return certain.Has(f.Fingerprint) || !f.Severity.AtLeast(finding.Warning) || !slices.ContainsFunc(f.About(), left.Has)
	})
	for i, f := range suspected { // a pod within its usual time is left out
		suspected[i].Pods = slices.DeleteFunc(slices.Clone(f.Pods), inTime.Has)
	}
	suspected = slices.DeleteFunc(suspected, func(f finding.Finding) bool { return slices.ContainsFunc(f.About(), inTime.Has) })
	times := later.Left()
	for _, run := range again {
		times = append(times, run.Left()...)
	}
	slices.Sort(times)
	forecast := forecast{view: view, probes: map[probe]sets.Set[string]{}}
	for i := range suspected {
		f := &suspected[i]
		if f.Settles != nil {
			continue // time alone does not settle it: its check sets the condition
		}
		at := metav1.NewTime(view.Snapshot.TakenAt.UTC().Add(forecast.certain(*f, times)))
		f.Settles = &finding.Settles{At: at, If: "nothing about it changes"}
		f.Suspect(f.Settles.Until(), "")
	}
	return suspected
}

// lookMeanwhile says where to look about a pod that is stuck, in each suspected finding that advises
// nothing but a repair: no repair is made on a suspicion, and nobody is told only to wait.
func lookMeanwhile(found []finding.Finding, traces []*trace.Trace) {
	for i := range found {
		f := &found[i]
		if f.Confidence != finding.Suspected || f.Advice != "" {
			continue
		}
		j := slices.IndexFunc(traces, func(t *trace.Trace) bool { return t.Verdict.State == finding.Stuck && f.Names(podOf(t)) })
		if j >= 0 {
			f.Advice, f.AdviceCommands, f.ByHand = whereToLook(traces[j]), []string{lookAt(traces[j])}, ""
		}
	}
}

// runAgain are the runs of the same checks after d. A run whose answers do not change until
// then is kept: it would find the same.
func runAgain(runs []*check.Run, d time.Duration) []*check.Run {
	var differ []*check.Run
	all := slices.Clone(runs)
	for i, run := range runs {
		if run.Ends(d) {
			all[i] = &check.Run{View: run.Later(d), Check: run.Check}
			differ = append(differ, all[i])
		}
	}
	sideBySide(differ)
	return all
}

// forecast computes when a check will be certain of a suspicion.
type forecast struct {
	view   *facts.View
	probes map[probe]sets.Set[string]
}

type probe struct {
	code  finding.Code
	after time.Duration
}

// certain is the shortest of the times, which are sorted, after which the check finds f;
// patience where it finds it after none of them.
func (c forecast) certain(f finding.Finding, times []time.Duration) time.Duration {
	i, _ := slices.BinarySearchFunc(times, true, func(after time.Duration, _ bool) int {
		return facts.BoolToInt(c.finds(f.Code, after).Has(f.Fingerprint)) - 1
	})
	if i == len(times) {
		return patience
	}
	return times[i]
}

// finds are the fingerprints of the check's findings after that time.
func (c forecast) finds(code finding.Code, after time.Duration) sets.Set[string] {
	at := probe{code, after}
	if c.probes[at] == nil {
		c.probes[at] = sets.New[string]()
		all := Checks()
		run := &check.Run{View: c.view.Later(after), Check: all[slices.IndexFunc(all, func(c check.Check) bool { return c.Code == code })]}
		run.Check.Run(run)
		for _, f := range run.Findings {
			c.probes[at].Insert(f.Fingerprint)
		}
	}
	return c.probes[at]
}
