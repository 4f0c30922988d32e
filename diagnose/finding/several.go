package finding

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// SharedCause is a cause with its consequences or, in a report on several clusters, the same
// cause in several of them.
type SharedCause struct {
	// Trees are as in Roots, the worst first.
	Trees [][]Finding
	// Contexts are the clusters, where there are several; sorted.
	Contexts []string
}

// Findings are the findings of all trees.
func (s SharedCause) Findings() []Finding { return slices.Concat(s.Trees...) }

// Info reports whether none of the findings is an error or a warning.
func (s SharedCause) Info() bool { return worst(pointers(s.Findings())) <= Info.Rank() }

// Causes are the causes of the report, worst first. Two clusters have the same cause where check,
// severity, confidence and kind of repair are equal, and the cause's text differs only in names
// and numbers.
func (r *Report) Causes() []SharedCause {
	var causes []SharedCause
	alone := func(trees [][]Finding) {
		for _, tree := range trees {
			causes = append(causes, SharedCause{Trees: [][]Finding{tree}})
		}
	}
	if len(r.Sources) == 0 {
		alone(r.Roots())
		return causes
	}
	for _, trees := range Alike(r.Roots(), func(tree []Finding) string { return sameCause(tree[0]) }) {
		contexts := sets.New[string]()
		for _, tree := range trees {
			contexts.Insert(tree[0].Context)
		}
		if len(contexts) > 1 {
			causes = append(causes, SharedCause{trees, sets.List(contexts)})
		} else {
			alone(trees)
		}
	}
	slices.SortStableFunc(causes, func(a, b SharedCause) int {
		return cmp.Or(worst(pointers(b.Findings()))-worst(pointers(a.Findings())), len(b.Contexts)-len(a.Contexts))
	})
	return causes
}

// Affected is the number of clusters that have a finding, in a report on several.
func (r *Report) Affected() int {
	contexts := sets.New[string]()
	for _, f := range r.Findings {
		contexts.Insert(f.Context)
	}
	return len(contexts)
}

// Alike groups the items by key, in the order of their first occurrence.
func Alike[T any](items []T, key func(T) string) [][]T {
	places := map[string]int{}
	var groups [][]T
	for _, item := range items {
		k := key(item)
		i, known := places[k]
		if !known {
			i = len(groups)
			places[k] = i
			groups = append(groups, nil)
		}
		groups[i] = append(groups[i], item)
	}
	return groups
}

func sameCause(f Finding) string {
	repair := ""
	if f.Repair != nil {
		repair = fmt.Sprintf("%s %t", f.Repair.Kind, f.Repair.Apply != "")
	}
	return strings.Join([]string{string(f.Code), string(f.Severity), string(f.Confidence), repair, causeWords(f)}, "\x00")
}

var (
	digits    = regexp.MustCompile(`[0-9]+`)
	addresses = regexp.MustCompile(`[a-z]+://[^\s:"]+(:[0-9]+)?`)
)

// causeWords is the text of the cause without names and numbers.
func causeWords(f Finding) string {
	return digits.ReplaceAllString(f.withoutNames(cmp.Or(f.Cause, f.Message)), "#")
}

// withoutName replaces the name by "#" where it is a whole word: a namespace may be called "a".
func withoutName(text, name string) string {
	part := func(c byte) bool {
		return c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	var b strings.Builder
	for {
		at := strings.Index(text, name)
		if at < 0 {
			b.WriteString(text)
			return b.String()
		}
		end := at + len(name)
		b.WriteString(text[:at])
		if at > 0 && part(text[at-1]) || end < len(text) && part(text[end]) {
			b.WriteString(name)
		} else {
			b.WriteByte('#')
		}
		text = text[end:]
	}
}

// Names reports whether the text has the name as a whole word.
func Names(text, name string) bool { return withoutName(text, name) != text }

// SharedGaps are the gaps of the report, grouped over the clusters that share them: the same kind
// and reason, and a text that differs only in names, numbers and addresses.
func (r *Report) SharedGaps() [][]snapshot.Gap {
	return Alike(r.Gaps, func(g snapshot.Gap) string {
		if g.Context == "" {
			return fmt.Sprintf("%q", []string{string(g.Kind), g.Namespace, g.Reason, g.Detail})
		}
		words := withoutName(addresses.ReplaceAllString(g.Detail, "#"), g.Context)
		return fmt.Sprintf("%q", []string{string(g.Kind), g.Namespace, g.Reason, digits.ReplaceAllString(words, "#")})
	})
}

// SharedSkips are the skipped checks, grouped by the missing kind and the clusters that lack
// it, sorted by kind and first cluster.
func (r *Report) SharedSkips() []SharedSkip {
	byCluster := Alike(r.SkippedChecks, func(c SkippedCheck) string { return string(c.Because) + "\x00" + c.Context })
	var shared []SharedSkip
	for _, skips := range Alike(byCluster, func(skips []SkippedCheck) string {
		var codes []string
		for _, c := range skips {
			codes = append(codes, string(c.Code))
		}
		return string(skips[0].Because) + "\x00" + strings.Join(codes, " ")
	}) {
		s := SharedSkip{Because: skips[0][0].Because}
		for _, c := range skips[0] {
			s.Codes = append(s.Codes, c.Code)
		}
		for _, of := range skips {
			if of[0].Context != "" {
				s.Contexts = append(s.Contexts, of[0].Context)
			}
		}
		shared = append(shared, s)
	}
	slices.SortStableFunc(shared, func(a, b SharedSkip) int {
		return cmp.Or(cmp.Compare(a.Because, b.Because), slices.Compare(a.Contexts, b.Contexts))
	})
	return shared
}

// SharedSkip is the checks that a missing kind kept from running, in some clusters.
type SharedSkip struct {
	Because  snapshot.Kind
	Codes    []Code
	Contexts []string // empty in a report on one cluster
}
