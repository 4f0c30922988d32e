package finding

import (
	"cmp"
	"slices"
)

// Arrange puts each finding directly behind what it follows from. A root stands
// where the worst that follows from it would, and before others if more follows.
func Arrange(findings []Finding) []Finding {
	slices.SortStableFunc(findings, func(a, b Finding) int {
		return cmp.Or(b.Severity.Rank()-a.Severity.Rank(), byWhat(a, b))
	})
	trees := trees(findings)
	slices.SortStableFunc(trees, func(a, b []Finding) int { return cmp.Or(worst(b)-worst(a), len(b)-len(a), byWhat(a[0], b[0])) })
	return append([]Finding{}, slices.Concat(trees...)...)
}

func worst(findings []Finding) int {
	rank := 0
	for _, f := range findings {
		rank = max(rank, f.Severity.Rank())
	}
	return rank
}

// trees are the findings that follow from none of the others, each with all that
// follows from it behind it. Every finding is in one of them, also where a report
// was put together from others or written by hand.
func trees(findings []Finding) [][]Finding {
	causes, followers := causesAmong(findings), map[int][]int{}
	for i, cause := range causes {
		followers[cause] = append(followers[cause], i)
	}
	placed := make([]bool, len(findings))
	var place func(i int) []Finding
	place = func(i int) []Finding {
		if placed[i] {
			return nil
		}
		placed[i] = true
		tree := []Finding{findings[i]}
		for _, follower := range followers[i] {
			tree = append(tree, place(follower)...)
		}
		return tree
	}
	var trees [][]Finding
	for _, root := range followers[-1] {
		trees = append(trees, place(root))
	}
	for i := range findings { // a circle has no root
		if tree := place(i); len(tree) > 0 {
			trees = append(trees, tree)
		}
	}
	return trees
}

// causesAmong are the places of what each finding follows from; -1 where that is
// not among them.
func causesAmong(findings []Finding) []int {
	places := map[string]int{}
	for i, f := range findings {
		if _, taken := places[f.Fingerprint]; !taken && f.Fingerprint != "" {
			places[f.Fingerprint] = i
		}
	}
	causes := make([]int, len(findings))
	for i, f := range findings {
		cause, ok := places[f.CausedBy]
		if !ok || cause == i {
			cause = -1
		}
		causes[i] = cause
	}
	return causes
}

// consequences are how many follow from each finding, directly or not.
func consequences(findings []Finding) []int {
	causes, n := causesAmong(findings), make([]int, len(findings))
	for _, cause := range causes {
		for range findings { // no farther, whatever a report from elsewhere says
			if cause < 0 {
				break
			}
			n[cause]++
			cause = causes[cause]
		}
	}
	return n
}

func byWhat(a, b Finding) int {
	return cmp.Or(cmp.Compare(a.Code, b.Code),
		cmp.Compare(a.Subject.Namespace, b.Subject.Namespace), cmp.Compare(a.Subject.Name, b.Subject.Name),
		cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Node, b.Node))
}
