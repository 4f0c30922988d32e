package diagnose

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// superiors are checks to which others yield but whose findings are not reported: the user has
// not asked for them, or they would need more of the cluster than was read. For the part that
// was read, others still yield to them.
func superiors(s *snapshot.Snapshot, checks, asked []check.Check) []check.Check {
	reported, wanted := map[finding.Code]bool{}, map[finding.Code]bool{}
	for _, c := range asked {
		reported[c.Code] = true
	}
	remainder := false
	for _, c := range checks {
		wanted[c.Code] = true
		for _, y := range c.Yields {
			wanted[y.To] = true
		}
		remainder = remainder || c.Remainder // it yields to all
	}
	var list []check.Check
	for _, c := range Checks() {
		if c.Run != nil && !reported[c.Code] && (wanted[c.Code] || remainder) && !lacksAll(s, c) {
			list = append(list, c)
		}
	}
	return list
}

// unyielding are the findings of the run that yield to no other finding.
func unyielding(p *facts.View, run *check.Run, found map[finding.Code][]finding.Finding) []finding.Finding {
	findings := run.Findings
	for _, y := range run.Check.Yields {
		taken := sets.New[string]()
		for _, f := range found[y.To] {
			taken.Insert(y.Key(p, f))
		}
		taken.Delete("")
		if len(taken) == 0 {
			continue
		}
		findings = slices.DeleteFunc(slices.Clone(findings), func(f finding.Finding) bool { return taken.Has(y.Key(p, f)) })
	}
	return findings
}

// link sets each finding's cause, as the checks declare it. The findings must be in their basic
// order, in which the first of several equal ones is the cause.
func link(p *facts.View, checks []check.Check, findings []finding.Finding) {
	byCode := map[finding.Code][]int{}
	for i, f := range findings {
		byCode[f.Code] = append(byCode[f.Code], i)
		findings[i].CausedBy = ""
	}
	for _, c := range checks {
		for _, relation := range c.Follows {
			linkEffects(p, relation, findings, byCode[c.Code], byCode)
		}
	}
	for _, group := range check.Groups {
		linkGroup(p, group, findings, byCode)
	}
	linkAlike(p, findings)
}

// linkAlike lets one of several alike findings represent the others: the worst, and of equals
// the first.
func linkAlike(p *facts.View, findings []finding.Finding) {
	first := map[string]int{}
	var members []int
	keys := make([]string, len(findings))
	for i, f := range findings {
		if f.CausedBy != "" || f.Headline != "" || !finding.IsAlike(f.Code) {
			continue
		}
		where := ""
		if slices.Contains(finding.AlikeOnNode, f.Code) {
			where = string(f.Node)
		}
		keys[i] = strings.Join([]string{string(f.Code), string(f.Confidence), p.DriverOf(f), where, f.Words()}, "\x00")
		members = append(members, i)
		if j, known := first[keys[i]]; !known || f.Severity.Rank() > findings[j].Severity.Rank() {
			first[keys[i]] = i
		}
	}
	for _, i := range members {
		if j := first[keys[i]]; j != i {
			findings[i].CausedBy = findings[j].Fingerprint
		}
	}
}

// linkEffects sets the first cause that matches, for each effect without a nearer cause.
func linkEffects(p *facts.View, r check.Relation, findings []finding.Finding, effects []int, byCode map[finding.Code][]int) {
	shared := func(i int) string {
		if r.Share == nil {
			return ""
		}
		return r.Share(findings[i])
	}
	causes := map[string][]int{}
	for _, code := range r.From {
		for _, i := range byCode[code] {
			causes[shared(i)] = append(causes[shared(i)], i)
		}
	}
	for _, i := range effects {
		if findings[i].CausedBy != "" {
			continue
		}
		at := slices.IndexFunc(causes[shared(i)], func(cause int) bool { return r.Match(p, findings[cause], findings[i]) })
		if at >= 0 {
			findings[i].CausedBy = findings[causes[shared(i)][at]].Fingerprint
		}
	}
}

func linkGroup(p *facts.View, g check.Group, findings []finding.Finding, byCode map[finding.Code][]int) {
	first := map[string]int{}
	var members []int
	for _, code := range finding.Groups[g.Name] {
		for _, i := range byCode[code] {
			key := g.Key(p, findings[i])
			if key == "" || findings[i].CausedBy != "" {
				continue
			}
			members = append(members, i)
			if j, ok := first[key]; !ok || findings[i].Severity.Rank() > findings[j].Severity.Rank() {
				first[key] = i
			}
		}
	}
	for _, i := range members {
		if j := first[g.Key(p, findings[i])]; j != i {
			findings[i].CausedBy = findings[j].Fingerprint
			findings[i].Headline, findings[j].Headline = g.Headline(p, findings[i]), g.Headline(p, findings[j])
		}
	}
}
