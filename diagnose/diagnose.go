package diagnose

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

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
		Checks:            []Code{},
		Findings:          []Finding{},
	}
	memory := &remembered{}
	var passes []*Pass
	for _, check := range checks {
		if check.Run == nil {
			continue
		}
		if i := slices.IndexFunc(check.Needs, func(k snapshot.Kind) bool { return !s.Complete(k) }); i >= 0 {
			r.SkippedChecks = append(r.SkippedChecks, SkippedCheck{Code: check.Code, Check: check.Name, Because: check.Needs[i]})
			continue
		}
		r.Checks = append(r.Checks, check.Code)
		passes = append(passes, &Pass{Snapshot: s, World: world, Plan: plan, check: check, memory: memory})
	}
	sideBySide(passes)
	for _, pass := range passes {
		r.Findings = append(r.Findings, pass.findings...)
	}
	pass := &Pass{Snapshot: s, World: world, Plan: plan, memory: memory}
	for i, f := range r.Findings {
		r.Findings[i].Workloads, r.Findings[i].Claims = pass.workloads(f.Pods), pass.claims(f.Pods, f.PersistentVolume)
	}
	r.Findings = arrange(r.Findings)
	pass.link(r.Findings)
	r.Volumes = records(s, world, r.Findings)
	r.settle()
	return r
}

// sideBySide runs the checks, as many at a time as there are processors. None
// sees what another finds; what they find out for each other is remembered.
func sideBySide(passes []*Pass) {
	var next atomic.Int64
	var running sync.WaitGroup
	for range min(len(passes), runtime.GOMAXPROCS(0)) {
		running.Go(func() {
			for i := next.Add(1); i <= int64(len(passes)); i = next.Add(1) {
				pass := passes[i-1]
				pass.check.Run(pass)
			}
		})
	}
	running.Wait()
}

// settle orders the findings and counts them, and what follows from each.
func (r *Report) settle() {
	r.Findings = arrange(r.Findings)
	follow := consequences(r.Findings)
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
}

// Keep drops the findings for which keep is false. What the others follow from
// is still named.
func (r *Report) Keep(keep func(Finding) bool) {
	causes := r.OmittedCauses
	for _, f := range r.Findings {
		causes = append(causes, OmittedCause{f.Code, f.Check, f.Severity, f.Message, f.Subject, f.Fingerprint})
	}
	r.Findings = slices.DeleteFunc(r.Findings, func(f Finding) bool { return !keep(f) })
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
	r.keepRecords()
	r.settle()
}

// omit says whether any of the effects names a cause that is not in the report. One
// that only stood for others which share its cause is replaced by the next of them.
func (r *Report) omit(cause OmittedCause, effects []int) (named bool) {
	var next string
	for _, i := range effects {
		switch f := &r.Findings[i]; {
		case f.CausedBy != cause.Fingerprint: // replaced before
		case !areKin(cause.Code, f.Code):
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

// Roots are the findings that follow from no other one in the report, each with
// all that follows from it behind it, directly or not.
func (r *Report) Roots() [][]Finding { return trees(r.Findings) }

// KeepPersisting drops what an earlier report of the same cluster did not
// already find.
func (r *Report) KeepPersisting(earlier *Report) {
	found := fingerprints(earlier.Findings)
	r.Keep(func(f Finding) bool { return found.Has(f.Fingerprint) })
}

func fingerprints(findings []Finding) sets.Set[string] {
	set := sets.New[string]()
	for _, f := range findings {
		set.Insert(f.Fingerprint)
	}
	return set
}

func (s Severity) rank() int { return slices.Index([]Severity{Info, Warning, Error, Never}, s) }

// AtLeast says whether the severity reaches the threshold.
func (s Severity) AtLeast(threshold Severity) bool { return s.rank() >= threshold.rank() }

// Reaches says whether any finding reaches the threshold.
func (r *Report) Reaches(threshold Severity) bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Severity.AtLeast(threshold) })
}
