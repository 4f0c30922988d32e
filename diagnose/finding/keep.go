package finding

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// New is the report with its findings sorted and counted.
func New(r Report) *Report {
	r.Findings, r.Waiting = slices.Clone(r.Findings), slices.Clone(r.Waiting)
	r.recount()
	return &r
}

// recount sorts the findings, and counts them and their consequences.
func (r *Report) recount() {
	r.Findings = Arrange(r.Findings)
	follow := consequences(pointers(r.Findings))
	r.Summary = Summary{}
	for i, f := range r.Findings {
		r.Findings[i].Consequences = follow[i]
		switch f.Severity {
		case Error:
			r.Summary.Error++
		case Warning:
			r.Summary.Warning++
		case Info, Never:
			r.Summary.Info++
		}
	}
	r.nameFindings()
}

// Keep is the report with only the findings for which keep is true. Causes that it loses are
// still named.
func (r *Report) Keep(keep func(Finding) bool) *Report {
	causes := slices.Clone(r.OmittedCauses)
	for _, f := range r.Findings {
		causes = append(causes, OmittedCause{f.Code, f.Check, f.Severity, f.Message, f.Subject, f.Fingerprint})
	}
	kept := *r
	kept.Findings = slices.DeleteFunc(slices.Clone(r.Findings), func(f Finding) bool { return !keep(f) })
	kept.Waiting = slices.Clone(r.Waiting)
	kept.nameCauses(causes)
	kept.keepRecords()
	kept.recount()
	return &kept
}

// nameCauses keeps the causes that a finding of the report names and that are not in the report
// themselves.
func (r *Report) nameCauses(causes []OmittedCause) {
	r.OmittedCauses = nil
	kept, effects, noted := fingerprints(r.Findings), map[string][]int{}, sets.New[OmittedCause]()
	for i, f := range r.Findings {
		effects[f.CausedBy] = append(effects[f.CausedBy], i)
	}
	for _, cause := range causes {
		if !kept.Has(cause.Fingerprint) && r.omit(cause, effects[cause.Fingerprint]) && !noted.Has(cause) {
			noted.Insert(cause)
			r.OmittedCauses = append(r.OmittedCauses, cause)
		}
	}
}

// omit reports whether any of the effects still names the cause, which is not in the report. A
// cause that only represented others of its group is replaced by the next of them.
func (r *Report) omit(cause OmittedCause, effects []int) (named bool) {
	var next string
	for _, i := range effects {
		switch f := &r.Findings[i]; {
		case f.CausedBy != cause.Fingerprint: // replaced before
		case !SameGroup(cause.Code, f.Code):
			named = true
		case next == "":
			next = f.Fingerprint
			f.CausedBy = ""
		default:
			f.CausedBy = next
		}
	}
	return named
}

// Roots are the findings without a cause in the report, each followed by its consequences,
// direct or not.
func (r *Report) Roots() [][]Finding {
	var roots [][]Finding
	for _, tree := range trees(pointers(r.Findings)) {
		roots = append(roots, values(tree))
	}
	return roots
}

// KeepPersisting is the report with only the findings that an earlier report of the same cluster
// has, too. A new warning or error that alone explains a stuck pod stays, as suspected: a look
// that is as much later again makes it certain.
func (r *Report) KeepPersisting(earlier *Report) *Report {
	looked := *r
	looked.Findings = slices.Clone(r.Findings)
	found, at := fingerprints(earlier.Findings), metav1.NewTime(r.TakenAt.Add(r.TakenAt.Sub(earlier.TakenAt.Time)))
	unanswered := r.stuck()
	for _, f := range r.Findings {
		if found.Has(f.Fingerprint) && f.Severity.AtLeast(Warning) {
			unanswered = slices.DeleteFunc(unanswered, f.Names)
		}
	}
	for i, f := range r.Findings {
		if !found.Has(f.Fingerprint) && f.Severity.AtLeast(Warning) && slices.ContainsFunc(unanswered, f.Names) {
			found.Insert(f.Fingerprint)
			looked.Findings[i] = f.notBefore(at)
		}
	}
	return looked.Keep(func(f Finding) bool { return found.Has(f.Fingerprint) })
}

// notBefore is the finding, suspected where only another look at that time can make it certain.
func (f Finding) notBefore(at metav1.Time) Finding {
	stamp := func(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }
	switch {
	case f.Settles == nil:
		f.Settles = &Settles{At: at, If: "another look then finds it again"}
		f.Suspect(f.Settles.Until(), "")
	case f.Settles.again == nil && f.Settles.At.Before(&at):
		f.Cause = strings.Replace(f.Cause, stamp(f.Settles.At), stamp(at), 1)
		settles := *f.Settles
		settles.At, f.Settles = at, &settles
	}
	return f
}

// FoundSince maps the fingerprint of each finding to the time since when every look has found
// it; before is the result of the look before.
func (r *Report) FoundSince(before map[string]metav1.Time) map[string]metav1.Time {
	since := map[string]metav1.Time{}
	for _, f := range r.Findings {
		since[f.Fingerprint] = r.TakenAt
		if first, found := before[f.Fingerprint]; found {
			since[f.Fingerprint] = first
		}
	}
	return since
}

// FoundAgain is the report for somebody who has looked before: since is the result of
// FoundSince. Findings that only another look could settle become certain after their time.
func (r *Report) FoundAgain(since map[string]metav1.Time) *Report {
	looked := *r
	looked.Findings = slices.Clone(r.Findings)
	for i, f := range r.Findings {
		first, found := since[f.Fingerprint]
		if f.Settles == nil || f.Settles.again == nil || !found || r.TakenAt.Sub(first.Time) < f.Settles.again.after {
			continue
		}
		settled := &looked.Findings[i]
		settled.Confidence, settled.Settles, settled.Severity, settled.Cause = "", nil, f.Settles.again.severity, f.Settles.again.cause
	}
	looked.Waiting = slices.Clone(r.Waiting)
	looked.recount()
	return &looked
}

// stuck are the pods whose wait is stuck.
func (r *Report) stuck() []string {
	var pods []string
	for _, w := range r.Waiting {
		if w.Verdict == Stuck {
			pods = append(pods, w.Pod)
		}
	}
	return pods
}

func fingerprints(findings []Finding) sets.Set[string] {
	set := sets.New[string]()
	for _, f := range findings {
		set.Insert(f.Fingerprint)
	}
	return set
}

// Rank is the index of the severity: info is 0, and the worst is last.
func (s Severity) Rank() int { return slices.Index([]Severity{Info, Warning, Error, Never}, s) }

// AtLeast reports whether the severity reaches the threshold.
func (s Severity) AtLeast(threshold Severity) bool { return s.Rank() >= threshold.Rank() }

// Reaches reports whether any finding reaches the threshold.
func (r *Report) Reaches(threshold Severity) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity.AtLeast(threshold) })
}
