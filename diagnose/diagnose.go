package diagnose

import (
	"cmp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Options choose what is examined.
type Options struct {
	Reconcile reconcile.Options
	// Checks are the ones to run; nil runs all.
	Checks []Check
}

// Diagnose rebuilds the worlds and runs the checks over them.
func Diagnose(s *snapshot.Snapshot, opts Options) *Report {
	world := reconcile.NewWorld(s, opts.Reconcile)
	return Examine(s, world, world.Reconcile(), opts.Checks)
}

// Examine runs the checks over worlds that are already rebuilt.
func Examine(s *snapshot.Snapshot, world *reconcile.World, plan *reconcile.Plan, checks []Check) *Report {
	if checks == nil {
		checks = Checks()
	}
	r := &Report{
		APIVersion:        APIVersion,
		Kind:              "Report",
		TakenAt:           metav1.NewTime(s.TakenAt.UTC()),
		KubernetesVersion: s.Source.ServerVersion,
		Source:            s.Source,
		Complete:          len(s.Gaps) == 0,
		Gaps:              append([]snapshot.Gap{}, s.Gaps...),
		SkippedChecks:     []SkippedCheck{},
		Findings:          []Finding{},
	}
	for _, check := range checks {
		if check.Run == nil {
			continue
		}
		if i := slices.IndexFunc(check.Needs, func(k snapshot.Kind) bool { return !s.Complete(k) }); i >= 0 {
			r.SkippedChecks = append(r.SkippedChecks, SkippedCheck{check.Code, check.Name, check.Needs[i]})
			continue
		}
		pass := &Pass{Snapshot: s, World: world, Plan: plan, check: check}
		check.Run(pass)
		r.Findings = append(r.Findings, pass.findings...)
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int {
		return cmp.Or(b.Severity.rank()-a.Severity.rank(), cmp.Compare(a.Code, b.Code),
			cmp.Compare(a.Subject.Namespace, b.Subject.Namespace), cmp.Compare(a.Subject.Name, b.Subject.Name),
			cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Node, b.Node))
	})
	r.count()
	return r
}

func (r *Report) count() {
	r.Summary = Summary{}
	for _, f := range r.Findings {
		switch f.Severity {
		case Error:
			r.Summary.Error++
		case Warning:
			r.Summary.Warning++
		case Info, Never:
			r.Summary.Info++
		}
	}
}

// Keep drops the findings for which keep is false.
func (r *Report) Keep(keep func(Finding) bool) {
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return !keep(f) })
	r.count()
}

// KeepPersisting drops what an earlier report of the same cluster did not
// already find.
func (r *Report) KeepPersisting(earlier *Report) {
	r.Keep(func(f Finding) bool {
		return slices.ContainsFunc(earlier.Findings, func(e Finding) bool { return e.Fingerprint == f.Fingerprint })
	})
}

func (s Severity) rank() int { return slices.Index([]Severity{Info, Warning, Error, Never}, s) }

// AtLeast says whether the severity reaches the threshold.
func (s Severity) AtLeast(threshold Severity) bool { return s.rank() >= threshold.rank() }

// Reaches says whether any finding reaches the threshold.
func (r *Report) Reaches(threshold Severity) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity.AtLeast(threshold) })
}
