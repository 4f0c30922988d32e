package diagnose

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// Request chooses what a report covers. The zero value covers everything that the checks find.
type Request struct {
	// Checks are the checks to run; nil runs all.
	Checks []check.Check
	// Answer are pods to answer for, including those that wait for nothing.
	Answer []*corev1.Pod
	// Earlier is an earlier report of the same cluster: only findings that it has, too, are
	// reported. nil for none.
	Earlier *finding.Report
	// Since is the result of Report.FoundSince over earlier looks at the same cluster: when
	// they first found what they have found ever since, by fingerprint.
	Since map[string]metav1.Time
	// Scope is the part to report on; nil for the whole cluster.
	Scope *Scope
	// Name is the name of the cluster in the report; "" for the context of its snapshot.
	Name string
	// Flags are the flags with which kubectl reaches this cluster, such as --context=NAME: each
	// command of an advice gets them.
	Flags []string
	// Settings are the other flags with which this program looks at the cluster in the same way:
	// each command line that makes a repair gets them.
	Settings []string
	// File is the file that was read, for this program's commands of an advice: "" for none, and
	// "-" for standard input, which no command line can name.
	File string
	// LeaveOut is what is already known.
	LeaveOut finding.LeaveOut
}

// Scope is the part of the cluster that a report is about. The evidence comes from the whole
// cluster in any case.
type Scope struct {
	// Of names the part in a sentence, such as "namespace shop"; "" is the whole cluster.
	Of string
	// Waits reports whether the entry is about a requested pod.
	Waits func(finding.Waiting) bool
	// Concerns reports whether the finding is about the requested part.
	Concerns func(finding.Finding) bool
	// Repairs leaves out the findings that only explain why a requested pod is stuck: they may
	// be about its driver or another node, and only requested objects are repaired.
	Repairs bool
}

// Build makes the requested report. Nothing changes it afterwards. Package repair, which imports
// this one, makes the same report with the repairs.
func Build(view *facts.View, request Request) *finding.Report {
	r := examine(view, request.Checks)
	for _, pod := range request.Answer { // the whole report decides: what is left out of it changes no verdict
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
	if request.Name != "" {
		r.Source.Context = request.Name
	}
	for i := range r.Findings {
		r.Findings[i].AdviceCommands = slices.Clone(r.Findings[i].AdviceCommands)
		for j := range r.Findings[i].AdviceCommands {
			request.address(&r.Findings[i].AdviceCommands[j])
		}
		for j := range r.Findings[i].Do { // made for this report alone
			request.address(&r.Findings[i].Do[j].Command)
		}
	}
	return r.Without(request.LeaveOut)
}

// address adds the flags to a command of an advice.
func (q *Request) address(command *string) {
	*command = safetext.WithFlags(*command, q.Flags...)
	if words, ok := safetext.KubectlWords(*command); ok && words[0] == "volume-doctor" && q.File != "" && q.File != "-" {
		*command = safetext.WithFlags(*command, "--filename="+q.File)
	}
}

// of is the requested part of the report, with the findings that explain why a requested pod is
// stuck.
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
