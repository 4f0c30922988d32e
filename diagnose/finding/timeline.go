package finding

import (
	"regexp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Entry is one line of a timeline: a change of a finding or of the gaps. Its JSON is a
// contract: fields are added, never changed.
type Entry struct {
	APIVersion string      `json:"apiVersion"`
	Kind       string      `json:"kind"`
	Time       metav1.Time `json:"time"`
	Change     Change      `json:"change"`
	// Finding is the finding as it appeared or changed, or the last state of one that healed.
	Finding *Finding `json:"finding,omitempty"`
	// Was has the earlier values of what changed.
	Was *Was `json:"was,omitempty"`
	// After is how long a healed finding stood, as Go writes durations.
	After string `json:"after,omitempty"`
	// Gaps are the gaps that opened or closed.
	Gaps []snapshot.Gap `json:"gaps,omitempty"`
}

// Change is the kind of an Entry.
type Change string

// The changes.
const (
	Appeared Change = "appeared"
	Changed  Change = "changed"
	Healed   Change = "healed"
	// GapOpened: from now on no finding that needs the missing objects is reported.
	GapOpened Change = "gap"
	GapClosed Change = "resumed"
)

// Was has the fields of a finding that can change; those that did not are empty.
type Was struct {
	Severity Severity     `json:"severity,omitempty"`
	Cause    string       `json:"cause,omitempty"`
	Since    *metav1.Time `json:"since,omitempty"`
}

// Timeline turns successive reports on the same cluster into entries.
type Timeline struct {
	standing []Standing
	gaps     []snapshot.Gap
}

// Standing is a finding that has appeared and has not healed, as it was last found.
type Standing struct {
	Finding
	// First and Last are the times of the reports that found it first and last.
	First, Last metav1.Time
	// without are the gaps at the time when it was last found.
	without []snapshot.Gap
}

// Began is when the finding began, or when it was first found where that is not known.
func (s Standing) Began() metav1.Time {
	if s.Since != nil {
		return *s.Since
	}
	return s.First
}

// Standing are the findings that stand after the last report, the worst first, including those
// that a gap hides.
func (t *Timeline) Standing() []Standing {
	return slices.SortedStableFunc(slices.Values(t.standing), func(a, b Standing) int {
		return b.Severity.Rank() - a.Severity.Rank()
	})
}

// Next returns the changes of the report: gaps first, then healed findings, then new and changed
// ones. A finding that a gap hides has not healed: it stands until a report that knows at least
// as much no longer has it. undecided is called for findings that are no longer found, and those
// for which it is true have not healed either; nil means none.
func (t *Timeline) Next(r *Report, undecided func(Finding) bool) []Entry {
	entry := func(change Change, gaps ...snapshot.Gap) Entry {
		return Entry{APIVersion: APIVersion, Kind: "TimelineEntry", Time: r.TakenAt, Change: change, Gaps: gaps}
	}
	var entries []Entry
	for _, e := range []Entry{entry(GapOpened, without(r.Gaps, t.gaps)...), entry(GapClosed, without(t.gaps, r.Gaps)...)} {
		if len(e.Gaps) > 0 {
			entries = append(entries, e)
		}
	}
	t.gaps = slices.Clone(r.Gaps)

	t.standing = slices.DeleteFunc(t.standing, func(s Standing) bool {
		if find(r.Findings, s.Fingerprint) >= 0 || !slices.Contains(r.Checks, s.Code) || len(without(r.Gaps, s.without)) > 0 {
			return false
		}
		if undecided != nil && undecided(s.Finding) {
			return false
		}
		e := entry(Healed)
		e.Finding = &s.Finding
		e.After = r.TakenAt.Sub(s.Began().Time).Round(time.Second).String()
		entries = append(entries, e)
		return true
	})
	hidden := slices.DeleteFunc(slices.Clone(t.standing), func(s Standing) bool { return find(r.Findings, s.Fingerprint) >= 0 })
	for _, f := range r.Findings {
		i := slices.IndexFunc(t.standing, func(s Standing) bool { return s.Fingerprint == f.Fingerprint })
		if i < 0 {
			if covered(f, hidden) {
				continue
			}
			e := entry(Appeared)
			e.Finding = &f
			entries = append(entries, e)
			t.standing = append(t.standing, Standing{f, r.TakenAt, r.TakenAt, t.gaps})
			continue
		}
		if was := whatWas(t.standing[i].Finding, f); was != (Was{}) {
			e := entry(Changed)
			e.Finding, e.Was = &f, &was
			entries = append(entries, e)
		}
		t.standing[i].Finding, t.standing[i].Last, t.standing[i].without = f, r.TakenAt, t.gaps
	}
	return entries
}

// covered reports whether the finding may be another view of those that a gap hides. Where the
// best check cannot run, one that yields to it reports the same failure. The finding must not be
// worse, and must be about the same pods or, without pods, the same volume or subject.
func covered(f Finding, hidden []Standing) bool {
	by := func(same func(Finding) bool) bool {
		return slices.ContainsFunc(hidden, func(h Standing) bool { return h.Severity.AtLeast(f.Severity) && same(h.Finding) })
	}
	pods := f.About()
	if len(pods) == 0 {
		return by(func(h Finding) bool {
			return f.Subject.Name != "" && h.Subject == f.Subject || f.Volume != "" && h.Volume == f.Volume && h.Node == f.Node
		})
	}
	return !slices.ContainsFunc(pods, func(pod string) bool { return !by(func(h Finding) bool { return h.Names(pod) }) })
}

func find(findings []Finding, fingerprint string) int {
	return slices.IndexFunc(findings, func(f Finding) bool { return f.Fingerprint == fingerprint })
}

// moment matches an age or a time in a text: the next report has another one.
var moment = regexp.MustCompile(`\b(?:\d+(?:\.\d+)?(?:ms|d|h|m|s))+\b|\b\d{4}-\d\d-\d\dT[\d:.]+Z|\b\d\d:\d\d:\d\d\b`)

// whatWas returns the earlier values of what has changed, except what changes as time passes.
func whatWas(before, now Finding) Was {
	var was Was
	if before.Severity != now.Severity {
		was.Severity = before.Severity
	}
	if moment.ReplaceAllLiteralString(before.Cause, "") != moment.ReplaceAllLiteralString(now.Cause, "") {
		was.Cause = before.Cause
	}
	if before.Since != nil && !before.Since.Equal(now.Since) {
		was.Since = before.Since
	}
	return was
}

// without are the gaps that the others do not have, whatever their details.
func without(gaps, others []snapshot.Gap) []snapshot.Gap {
	return slices.DeleteFunc(slices.Clone(gaps), func(g snapshot.Gap) bool {
		return slices.ContainsFunc(others, func(o snapshot.Gap) bool {
			return o.Kind == g.Kind && o.Namespace == g.Namespace && o.Context == g.Context
		})
	})
}
