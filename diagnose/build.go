package diagnose

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
)

// Request says what is asked of a report. The zero value asks for all that the checks find.
type Request struct {
	// Checks are the ones to run; nil runs all.
	Checks []check.Check
	// Answer are pods to answer for, also those that wait for nothing.
	Answer []*corev1.Pod
	// Earlier is an earlier report of the same cluster: only what it found, too, is
	// reported. nil for none.
	Earlier *finding.Report
	// Since has, by their fingerprints, when earlier looks at the same cluster first found the
	// findings that they have found ever since: Report.FoundSince.
	Since map[string]metav1.Time
	// Scope is nil for the whole cluster.
	Scope *Scope
	// Flags are those that kubectl needs to reach this cluster, as --context=NAME: each
	// command of an advice gets them.
	Flags []string
	// LeaveOut is what is known already.
	LeaveOut finding.LeaveOut
	// Finish completes the report before anybody has it. Package repair, which stands above
	// this one, adds the repairs to its findings.
	Finish func(*finding.Report)
}

// Scope is what a report is about. What was read as evidence stays the whole cluster.
type Scope struct {
	// Of names it in a sentence, such as "namespace shop"; "" is the whole cluster.
	Of string
	// Waits reports whether the entry is about a pod that was asked about.
	Waits func(finding.Waiting) bool
	// Concerns reports whether the finding is about what was asked about.
	Concerns func(finding.Finding) bool
	// Repairs leaves out the findings that only say why a pod in question is stuck: they
	// may be about its driver or another node, and what is repaired is what was asked for.
	Repairs bool
}

// Build makes the report that is asked for. Nothing changes it afterwards.
func Build(view *facts.View, request Request) *finding.Report {
	r := examine(view, request.Checks)
	for _, pod := range request.Answer { // the whole report answers: what is left out of it changes no verdict
		r.Answers = append(r.Answers, answerFor(view, r, pod))
	}
	if request.Earlier != nil {
		r = r.KeepPersisting(request.Earlier).FoundAgain(request.Earlier.FoundSince(nil))
	}
	if len(request.Since) > 0 {
		r = r.FoundAgain(request.Since)
	}
	if request.Scope != nil {
		r = request.Scope.of(r)
		r.Scope.Of = request.Scope.Of
	}
	if len(request.Flags) > 0 {
		for i := range r.Findings {
			commands := slices.Clone(r.Findings[i].AdviceCommands)
			for j, command := range commands {
				commands[j] = safetext.WithFlags(command, request.Flags...)
			}
			r.Findings[i].AdviceCommands = commands
			for j := range r.Findings[i].Do { // made for this report alone
				if a := &r.Findings[i].Do[j]; a.Command != "" {
					a.Command = safetext.WithFlags(a.Command, request.Flags...)
				}
			}
		}
	}
	r = r.Without(request.LeaveOut)
	if request.Finish != nil {
		request.Finish(r)
	}
	return r
}

// of is the part of the report that was asked for, and the findings that say why a pod in
// question is stuck.
func (s *Scope) of(r *finding.Report) *finding.Report {
	r = r.KeepWaiting(s.Waits)
	stuck := sets.New[string]()
	for _, w := range r.Waiting {
		if w.Verdict == finding.Stuck && !s.Repairs {
			stuck.Insert(w.Pod)
		}
	}
	return r.Keep(func(f finding.Finding) bool {
		return slices.ContainsFunc(f.About(), stuck.Has) || s.Concerns(f)
	})
}
