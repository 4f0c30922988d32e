package diagnose

import (
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// Undecided reports whether the check of a finding that is no longer found will find it again
// in a minute if nothing changes. Some checks rely on a list only once it has stood that long,
// and start again each time it is written, even unchanged: then nothing has healed.
func Undecided(view *facts.View, f finding.Finding) bool {
	all := Checks()
	i := slices.IndexFunc(all, func(c check.Check) bool { return c.Code == f.Code && c.Run != nil })
	if i < 0 {
		return false
	}
	asked := all[i : i+1]
	if _, lacks := lacking(view.Snapshot, asked[0]); lacks {
		return false
	}
	return slices.ContainsFunc(search(view.Later(facts.ListsGrace), asked, superiors(view.Snapshot, asked, asked)), func(g finding.Finding) bool { return g.Fingerprint == f.Fingerprint })
}
