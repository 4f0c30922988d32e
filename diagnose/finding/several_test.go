package finding

import (
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// rejected is the finding of a detach that a driver rejects, in a cluster.
func rejected(context, node, words string) Finding {
	pod := fmt.Sprintf("shop/db-%s", node)
	f := Finding{
		Code: "VD103", Check: "va-stuck-deleting", Severity: Error, Context: context, Message: InContext(context, "it hangs"),
		Subject: Object{Kind: "Pod", Namespace: "shop", Name: "db-" + node}, Node: types.NodeName(node), Pods: []string{pod},
		Cause: fmt.Sprintf("the driver rejects the detach from %s for %s since 40m: %s", node, pod, words),
	}
	f.Fingerprint = fingerprintIn(context, Fingerprint(f))
	return f
}

// TestCauses: the same cause in several clusters is one, whatever the names and numbers.
// Another text, severity or repair makes another cause, and findings of a single cluster are
// not merged.
func TestCauses(t *testing.T) {
	several := func(findings ...Finding) *Report {
		r := &Report{Sources: []snapshot.Source{{Context: "a"}, {Context: "b"}, {Context: "c"}}, Findings: findings}
		return New(*r)
	}
	mild := rejected("b", "n2", "server is locked")
	mild.Severity = Warning
	repaired := rejected("b", "n2", "server is locked")
	repaired.Repair = &Repair{Kind: "nudge", Apply: "kubectl ..."}
	refused := rejected("a", "n1", "server is locked")
	refused.Repair = &Repair{Kind: "nudge"}
	for name, tc := range map[string]struct {
		r    *Report
		want [][]string
	}{
		"the same":                 {several(rejected("a", "n1", "server is locked"), rejected("b", "node-77", "server is locked")), [][]string{{"a", "b"}}},
		"other numbers":            {several(rejected("a", "n1", "quota 7"), rejected("b", "n2", "quota 12")), [][]string{{"a", "b"}}},
		"other words":              {several(rejected("a", "n1", "server is locked"), rejected("b", "n2", "no such server")), [][]string{nil, nil}},
		"another severity":         {several(rejected("a", "n1", "server is locked"), mild), [][]string{nil, nil}},
		"one may be repaired":      {several(refused, repaired), [][]string{nil, nil}},
		"twice in one cluster":     {several(rejected("a", "n1", "server is locked"), rejected("a", "n2", "server is locked")), [][]string{nil, nil}},
		"two in one, and another":  {several(rejected("a", "n1", "x"), rejected("a", "n2", "x"), rejected("c", "n2", "x")), [][]string{{"a", "c"}}},
		"the worst in front":       {several(mild, rejected("c", "n1", "x"), rejected("a", "n1", "y"), rejected("b", "n1", "y")), [][]string{{"a", "b"}, nil, nil}},
		"a report on one":          {&Report{Findings: []Finding{rejected("", "n1", "x"), rejected("", "n2", "x")}}, [][]string{nil, nil}},
		"a name within a word":     {several(rejected("a", "e", "refuse"), rejected("b", "u", "refuse")), [][]string{{"a", "b"}}},
		"nothing is wrong":         {several(), nil},
		"one cluster of the three": {several(rejected("b", "n1", "x")), [][]string{nil}},
	} {
		var got [][]string
		for _, c := range tc.r.Causes() {
			got = append(got, c.Contexts)
		}
		if !slices.EqualFunc(got, tc.want, slices.Equal) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// TestCausesKeepEverything: each finding is in exactly one cause.
func TestCausesKeepEverything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := &Report{Sources: []snapshot.Source{{Context: "a"}, {Context: "b"}}}
		for i := range rapid.IntRange(0, 12).Draw(t, "findings") {
			f := rejected(rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "context"), fmt.Sprintf("n%d", i), rapid.SampledFrom([]string{"x", "y"}).Draw(t, "words"))
			if len(r.Findings) > 0 && rapid.Bool().Draw(t, "follows") {
				f.CausedBy = r.Findings[rapid.IntRange(0, len(r.Findings)-1).Draw(t, "cause")].Fingerprint
			}
			r.Findings = append(r.Findings, f)
		}
		r = New(*r)
		seen := map[string]int{}
		for _, c := range r.Causes() {
			for _, f := range c.Findings() {
				seen[f.Fingerprint]++
			}
		}
		for _, f := range r.Findings {
			if seen[f.Fingerprint] != 1 {
				t.Fatalf("%s stands in %d causes", f.Fingerprint, seen[f.Fingerprint])
			}
		}
	})
}

// TestSharedGaps: the same gap of many clusters is one line, and no gap is lost.
func TestSharedGaps(t *testing.T) {
	gap := func(context string, kind snapshot.Kind, detail string) snapshot.Gap {
		return snapshot.Gap{Context: context, Kind: kind, Reason: snapshot.ReasonUnavailable, Detail: detail}
	}
	r := &Report{Gaps: []snapshot.Gap{
		gap("a", snapshot.Pods, "cannot reach the API server at https://10.0.0.1:6443: refused"),
		gap("b", snapshot.Pods, "cannot reach the API server at https://b.example.com: refused"),
		gap("b", snapshot.Nodes, "cannot reach the API server at https://b.example.com: refused"),
		gap("c", snapshot.Pods, "something else"),
	}}
	var got []int
	for _, gaps := range r.SharedGaps() {
		got = append(got, len(gaps))
	}
	if !slices.Equal(got, []int{2, 1, 1}) {
		t.Errorf("%v", got)
	}
	one := &Report{Gaps: []snapshot.Gap{gap("", snapshot.Pods, "in 1"), gap("", snapshot.Pods, "in 2")}}
	if len(one.SharedGaps()) != 2 {
		t.Error("the gaps of one cluster differ")
	}
}

// TestSharedSkips: skipped checks are grouped by the missing kind, with the clusters that lack
// it.
func TestSharedSkips(t *testing.T) {
	r := &Report{SkippedChecks: []SkippedCheck{
		{"VD601", "x", snapshot.CSINodes, "a"}, {"VD602", "y", snapshot.CSINodes, "a"}, {"VD601", "x", snapshot.CSINodes, "b"}, {"VD602", "y", snapshot.CSINodes, "b"},
		{"VD601", "x", snapshot.CSINodes, "c"}, {"VD305", "z", snapshot.Events, "c"},
	}}
	var got []string
	for _, s := range r.SharedSkips() {
		got = append(got, fmt.Sprint(s.Because, s.Codes, s.Contexts))
	}
	if want := []string{"csinodes[VD601 VD602] [a b]", "csinodes[VD601] [c]", "events[VD305] [c]"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
