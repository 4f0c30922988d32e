package claims

import (
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
)

// Question is what a look said at a moment, which copies of the world are asked about: they
// are the same until then, and then one thing is done to each.
type Question struct {
	// At is the time of the look since the world began.
	At time.Duration
	// Code is the code of the finding, Claim one that it is about, and Message its own.
	Code    finding.Code
	Claim   string
	Message string
	// Says is the finding as a whole; empty where the question is about an actor.
	Says finding.Finding
	// Kinds are the kinds of what must be wrong for it to be true.
	Kinds []string
}

// Causes asks of each code that names a cause, the first time that one is certain while a
// pod waits because of it, whether its cause is what the pod waits for.
func Causes(r *Record) []Question {
	return questions(r, func(l Look, f finding.Finding) bool {
		return f.Confidence != finding.Suspected && causes[f.Code] != nil && slices.ContainsFunc(f.About(), func(pod string) bool { return r.at(pod, l.At).Waits(l.At) })
	})
}

// Parts asks of each part that has to act, the first time that a pod with the claim is stuck for
// it, whether something is wrong with that part that the pod waits for.
func Parts(r *Record) []Question {
	var list []Question
	for _, l := range r.Looks {
		for _, w := range l.Report.Waiting {
			kinds, p := kindsOf(w.Actor), r.at(w.Pod, l.At)
			if w.Verdict != finding.Stuck || kinds == nil || p == nil || len(p.Claims) == 0 {
				continue
			}
			q := Question{At: l.At.Sub(r.Began), Claim: p.Claims[0], Message: w.Actor + " has to act", Kinds: kinds}
			if !slices.ContainsFunc(list, func(known Question) bool { return known.Message == q.Message && known.Claim == q.Claim }) {
				list = append(list, q)
			}
		}
	}
	return list
}

// Actions asks of each code, the first time that its finding has something to do now that is
// a repair, a command, or an end or a restart of something, what comes of it.
func Actions(r *Record) []Question {
	return questions(r, func(_ Look, f finding.Finding) bool {
		return f.Repair != nil && (f.Repair.BlockedBy == "" || len(f.Repair.Needs) > 0) || slices.ContainsFunc(f.Actions, Changes)
	})
}

// Changes reports whether the action is to be done now, and is a command that changes
// something, or ends or restarts something.
func Changes(a finding.Action) bool {
	ends := slices.ContainsFunc(step.Reaches(), func(r step.Reach) bool { return finding.ActionKind(r.Kind) == a.Kind })
	return a.When == finding.Now && a.Kind != finding.ApplyRepair && a.Kind != finding.Look && (ends || strings.HasPrefix(a.Command, "kubectl "))
}

func questions(r *Record, ask func(Look, finding.Finding) bool) []Question {
	var list []Question
	for _, l := range r.Looks {
		for _, f := range l.Report.Findings {
			claim := r.claimOf(l, f)
			if claim == "" || !ask(l, f) || slices.ContainsFunc(list, func(q Question) bool { return q.Code == f.Code && q.Claim == claim }) {
				continue
			}
			list = append(list, Question{At: l.At.Sub(r.Began), Code: f.Code, Claim: claim, Message: f.Message, Says: f, Kinds: causes[f.Code]})
		}
	}
	return list
}

// claimOf is the claim of the first pod that the finding is about; "" for none.
func (r *Record) claimOf(l Look, f finding.Finding) string {
	for _, name := range f.About() {
		if p := r.at(name, l.At); p != nil && len(p.Claims) > 0 {
			return p.Claims[0]
		}
	}
	return ""
}

// Serves is since when a pod with the claim runs, as the world ends; zero where none does.
func (r *Record) Serves(claim string) time.Time {
	for _, p := range r.Pods {
		if since := p.runs(r.Ended); slices.Contains(p.Claims, claim) && !since.IsZero() {
			return since
		}
	}
	return time.Time{}
}

// Lost are the pods that ran at that moment, on a node whose kubelet ran, and were ended
// later, by their names, each with its first claim.
func (r *Record) Lost(when time.Time) map[string]string {
	lost := map[string]string{}
	for _, p := range r.Pods {
		if len(p.Claims) > 0 && !r.stopped(p.Node, when) && !p.runs(when).IsZero() && (!p.Deleted.IsZero() || !p.Gone.IsZero()) {
			lost[p.Name] = p.Claims[0]
		}
	}
	return lost
}

// Last reports whether the last look has the finding of the code that is about the claim.
func (r *Record) Last(q Question) bool {
	if len(r.Looks) == 0 {
		return false
	}
	l := r.Looks[len(r.Looks)-1]
	return slices.ContainsFunc(l.Report.Findings, func(f finding.Finding) bool { return f.Code == q.Code && r.claimOf(l, f) == q.Claim })
}

// CausedBy judges the question by the kinds of what was wrong then, and by those of which
// the cure alone, in a copy of the world, has let the pod run.
func (t *Tally) CausedBy(q Question, wrong, freed []string, alone bool) {
	judge := "cure"
	if q.Code == "" {
		judge = "cure of the actor"
	}
	switch {
	case alone:
		t.Exempt[judge+": it heals in a copy to which nothing is done"]++
	case len(wrong) == 0:
		t.Exempt[judge+": nothing was wrong then that could be cured"]++
	case len(freed) == 0:
		t.Exempt[judge+": the cure of no one fault frees the pod"]++
	default:
		t.Judged[judge]++
		if !slices.ContainsFunc(freed, func(kind string) bool { return slices.Contains(q.Kinds, kind) }) {
			t.False = append(t.False, False{Judge: judge, Code: string(q.Code), At: q.At, Claim: q.Message, Truth: "what frees the pod is the cure of " + strings.Join(freed, ", ")})
		}
	}
}
