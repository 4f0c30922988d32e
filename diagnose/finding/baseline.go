package finding

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// LeaveOut is what somebody already knows: a report counts it and does not show it.
type LeaveOut struct {
	Suppressions []Suppression
	// Baseline is an earlier report; nil for none.
	Baseline *Report
}

// Without is the report without the findings that are left out. It is r itself where nothing is
// to be left out.
func (r *Report) Without(l LeaveOut) *Report {
	left := r
	if len(l.Suppressions) > 0 {
		var hide []Suppression
		left = r.Keep(func(f Finding) bool {
			i := slices.IndexFunc(l.Suppressions, func(s Suppression) bool { return !s.Expired(r.TakenAt.Time) && s.Hides(f) })
			if i >= 0 {
				hide = append(hide, l.Suppressions[i])
			}
			return i < 0
		})
		left.Suppressed += len(hide)
		left.SuppressedBy = cmp.Or(by(hide), r.SuppressedBy)
	}
	if l.Baseline != nil {
		known, before := fingerprints(l.Baseline.Findings), len(left.Findings)
		left = left.Keep(func(f Finding) bool { return !known.Has(f.Fingerprint) })
		left.Known += before - len(left.Findings)
	}
	return left
}

// by is the file of the suppressions, and the first day on which one ends.
func by(hide []Suppression) string {
	if len(hide) == 0 || hide[0].File == "" {
		return ""
	}
	var until time.Time
	for _, s := range hide {
		if !s.Until.IsZero() && (until.IsZero() || s.Until.Before(until)) {
			until = s.Until
		}
	}
	if until.IsZero() {
		return hide[0].File
	}
	return hide[0].File + " until " + until.Format(time.DateOnly)
}

// Fits is why the baseline is not for a run on the clusters of the sources; nil where it fits. It
// compares the addresses where both sides have one: a file has none.
func (r *Report) Fits(several bool, sources ...snapshot.Source) error {
	switch {
	case several && len(r.Sources) == 0:
		return errors.New("it is about one cluster, and this run is about several")
	case !several && len(r.Sources) > 0:
		return errors.New("it is about several clusters, and this run is about one")
	}
	here, there := servers(sources), servers(append([]snapshot.Source{r.Source}, r.Sources...))
	if len(here) == 0 || len(there) == 0 || slices.ContainsFunc(here, func(s string) bool { return slices.Contains(there, s) }) {
		return nil
	}
	return fmt.Errorf("it is about another cluster: %s, not %s", there[0], here[0])
}

func servers(sources []snapshot.Source) []string {
	var known []string
	for _, s := range sources {
		if s.Server != "" {
			known = append(known, s.Server)
		}
	}
	return known
}
