package finding

import (
	"cmp"
	"slices"
)

// Arrange puts each finding directly behind its cause. A root is placed by the worst of its
// consequences, and before others with fewer of them.
func Arrange(findings []Finding) []Finding {
	sorted := pointers(findings) // to move a finding itself takes far longer
	slices.SortStableFunc(sorted, func(a, b *Finding) int {
		return cmp.Or(b.Severity.Rank()-a.Severity.Rank(), byWhat(a, b))
	})
	trees := trees(sorted)
	slices.SortStableFunc(trees, func(a, b []*Finding) int { return cmp.Or(worst(b)-worst(a), len(b)-len(a), byWhat(a[0], b[0])) })
	return values(slices.Concat(trees...))
}

func pointers(findings []Finding) []*Finding {
	list := make([]*Finding, len(findings))
	for i := range findings {
		list[i] = &findings[i]
	}
	return list
}

func values(findings []*Finding) []Finding {
	list := make([]Finding, len(findings))
	for i, f := range findings {
		list[i] = *f
	}
	return list
}

func worst(findings []*Finding) int {
	rank := 0
	for _, f := range findings {
		rank = max(rank, f.Severity.Rank())
	}
	return rank
}

// trees are the findings without a cause among the others, each followed by its consequences.
// Every finding is in one of them, even in a report that was merged or written by hand.
func trees(findings []*Finding) [][]*Finding {
	causes := causesAmong(findings)
	var roots []int
	followers := make([][]int, len(findings))
	for i, cause := range causes {
		if cause < 0 {
			roots = append(roots, i)
		} else {
			followers[cause] = append(followers[cause], i)
		}
	}
	placed := make([]bool, len(findings))
	var trees [][]*Finding
	all := make([]*Finding, 0, len(findings)) // each tree is a part of it
	var place func(i int)
	place = func(i int) {
		if placed[i] {
			return
		}
		placed[i] = true
		all = append(all, findings[i])
		for _, follower := range followers[i] {
			place(follower)
		}
	}
	plant := func(root int) {
		from := len(all)
		if place(root); len(all) > from {
			trees = append(trees, all[from:len(all):len(all)])
		}
	}
	for _, root := range roots {
		plant(root)
	}
	for i := range findings { // a circle has no root
		plant(i)
	}
	return trees
}

// causesAmong are the indexes of each finding's cause; -1 where it is not among them.
func causesAmong(findings []*Finding) []int {
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

// consequences are the numbers of findings that follow from each, directly or not.
func consequences(findings []*Finding) []int {
	causes, n := causesAmong(findings), make([]int, len(findings))
	for _, cause := range causes {
		for range findings { // a report from elsewhere may have a cycle
			if cause < 0 {
				break
			}
			n[cause]++
			cause = causes[cause]
		}
	}
	return n
}

func byWhat(a, b *Finding) int {
	return cmp.Or(cmp.Compare(a.Code, b.Code),
		cmp.Compare(a.Subject.Namespace, b.Subject.Namespace), cmp.Compare(a.Subject.Name, b.Subject.Name),
		cmp.Compare(a.Volume, b.Volume), cmp.Compare(a.Node, b.Node))
}
