package diagnose

import (
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// Relatives are the checks whose findings affect those of one check, or are affected by them.
// Each list is in the order of the codes.
type Relatives struct {
	YieldsTo, TakesPlaceOf   []check.Check
	FollowsFrom, BringsAbout []check.Check
	// SharesCause are the other members of the check's group.
	SharesCause []check.Check
}

// Related collects what the checks declare about each other, from both sides.
func Related(c check.Check) Relatives {
	var r Relatives
	for _, other := range Checks() {
		if yieldsTo(c, other.Code) {
			r.YieldsTo = append(r.YieldsTo, other)
		}
		if yieldsTo(other, c.Code) {
			r.TakesPlaceOf = append(r.TakesPlaceOf, other)
		}
		if followsFrom(c, other.Code) {
			r.FollowsFrom = append(r.FollowsFrom, other)
		}
		if followsFrom(other, c.Code) {
			r.BringsAbout = append(r.BringsAbout, other)
		}
		if other.Code != c.Code && finding.SameGroup(other.Code, c.Code) {
			r.SharesCause = append(r.SharesCause, other)
		}
	}
	return r
}

func yieldsTo(c check.Check, code finding.Code) bool {
	return slices.ContainsFunc(c.Yields, func(y check.Yield) bool { return y.To == code })
}

func followsFrom(c check.Check, code finding.Code) bool {
	return slices.ContainsFunc(c.Follows, func(r check.Relation) bool { return slices.Contains(r.From, code) })
}
