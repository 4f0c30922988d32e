package diagnose

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// exercised are the links between findings of all cases, by the codes of cause and effect. It
// does not read the expectations, which make generate is about to write.
func exercised(t *testing.T) map[[2]finding.Code]bool {
	cases, err := testcases.All()
	if err != nil {
		t.Fatal(err)
	}
	links := map[[2]finding.Code]bool{}
	for _, c := range cases {
		s, err := c.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		findings := Diagnose(s, Options{Reconcile: c.Settings}).Findings
		for _, f := range findings {
			for _, cause := range findings {
				if f.CausedBy == cause.Fingerprint {
					links[[2]finding.Code{cause.Code, f.Code}] = true
				}
			}
		}
	}
	return links
}

// TestCausesAreExercised: every code of every relation and of every group occurs in some case.
func TestCausesAreExercised(t *testing.T) {
	links := exercised(t)
	seen := func(causes, effects []finding.Code) bool {
		for _, cause := range causes {
			for _, effect := range effects {
				if links[[2]finding.Code{cause, effect}] {
					return true
				}
			}
		}
		return false
	}
	for _, c := range Checks() {
		own := []finding.Code{c.Code}
		for _, r := range c.Follows {
			if !seen(r.From, own) {
				t.Errorf("no case has %s follow from any of %v", c.Code, r.From)
			}
			for _, cause := range r.From {
				if !slices.ContainsFunc(sameMatch(r), func(effect finding.Code) bool { return links[[2]finding.Code{cause, effect}] }) {
					t.Errorf("no case has %s bring about any of %v", cause, sameMatch(r))
				}
			}
		}
		for name, codes := range finding.Groups {
			if slices.Contains(codes, c.Code) && !seen(own, codes) && !seen(codes, own) {
				t.Errorf("no case has %s share its cause with another of %s", c.Code, name)
			}
		}
	}
}

// sameMatch are the codes whose findings follow from the relation's causes by the same
// function.
func sameMatch(r check.Relation) []finding.Code {
	var effects []finding.Code
	for _, c := range Checks() {
		if slices.ContainsFunc(c.Follows, func(other check.Relation) bool {
			return reflect.ValueOf(other.Match).Pointer() == reflect.ValueOf(r.Match).Pointer()
		}) {
			effects = append(effects, c.Code)
		}
	}
	return effects
}

// TestCausesShareWhatTheyAreFoundBy: no relation misses a cause because Share differs.
func TestCausesShareWhatTheyAreFoundBy(t *testing.T) {
	matches := map[finding.Code][]int{}
	for _, c := range Checks() {
		matches[c.Code] = make([]int, len(c.Follows))
	}
	for path, s := range caseSnapshots(t) {
		world := reconcile.NewWorld(s, reconcile.Options{})
		p := facts.NewView(s, world, world.Reconcile())
		findings := examine(facts.NewView(s, world, p.Plan), nil).Findings
		for _, c := range Checks() {
			for i, r := range c.Follows {
				matches[c.Code][i] += sharing(t, path, p, r, c.Code, findings)
			}
		}
	}
	for _, c := range Checks() {
		for i, r := range c.Follows {
			if r.Share != nil && matches[c.Code][i] == 0 {
				t.Errorf("no case has %s follow from any of %v", c.Code, r.From)
			}
		}
	}
}

// sharing counts the pairs that match, and fails where Share would keep one of them from being
// compared.
func sharing(t *testing.T, path string, p *facts.View, r check.Relation, effect finding.Code, findings []finding.Finding) (matches int) {
	for _, a := range findings {
		for _, b := range findings {
			if r.Share == nil || !slices.Contains(r.From, a.Code) || b.Code != effect || !r.Match(p, a, b) {
				continue
			}
			matches++
			if r.Share(a) != r.Share(b) {
				t.Errorf("%s: %s brings about %s, and they share nothing: %q", path, a.Code, b.Code, []string{r.Share(a), r.Share(b)})
			}
		}
	}
	return matches
}

// TestCausesAreCodes: the checks name existing checks, and each pair of them once. A group has
// existing checks, each of which is in no other group.
func TestCausesAreCodes(t *testing.T) {
	known := map[finding.Code]bool{}
	for _, c := range Checks() {
		known[c.Code] = c.Run != nil
	}
	for _, c := range Checks() {
		var seen []finding.Code
		for _, r := range c.Follows {
			for _, cause := range r.From {
				switch {
				case !known[cause]:
					t.Errorf("%s follows from %s, which has no check", c.Code, cause)
				case slices.Contains(seen, cause):
					t.Errorf("%s names %s twice", c.Code, cause)
				case finding.SameGroup(cause, c.Code):
					t.Errorf("%s causes %s and is in its group: a narrowed report could not tell which", cause, c.Code)
				}
				seen = append(seen, cause)
			}
		}
	}
	grouped := map[finding.Code]string{}
	for _, g := range check.Groups {
		for _, code := range finding.Groups[g.Name] {
			if !known[code] || grouped[code] != "" {
				t.Errorf("%s is no check, or in the groups %q and %q", code, grouped[code], g.Name)
			}
			grouped[code] = g.Name
		}
	}
	for name, codes := range finding.Groups {
		if grouped[codes[0]] != name {
			t.Errorf("check.Groups does not have %q", name)
		}
	}
}

// TestCausesHaveNoCycles: no code causes itself, however indirectly. Members of a group follow
// only from a code that follows from nothing, and close no cycle.
func TestCausesHaveNoCycles(t *testing.T) {
	effects := map[finding.Code][]finding.Code{}
	for _, c := range Checks() {
		for _, r := range c.Follows {
			for _, cause := range r.From {
				effects[cause] = append(effects[cause], c.Code)
			}
		}
	}
	var visit func(path []finding.Code)
	visit = func(path []finding.Code) {
		last := path[len(path)-1]
		if slices.Contains(path[:len(path)-1], last) {
			t.Errorf("a circle: %v", path)
			return
		}
		for _, effect := range effects[last] {
			visit(append(slices.Clone(path), effect))
		}
	}
	for cause := range effects {
		visit([]finding.Code{cause})
	}
}

// TestNarrowedReportNamesCauses: a cause that was not requested is named with its message. It
// is replaced only where it represented others of its group.
func TestNarrowedReportNamesCauses(t *testing.T) {
	finding_ := func(code finding.Code, fingerprint, causedBy string) finding.Finding {
		return finding.Finding{Code: code, Fingerprint: fingerprint, CausedBy: causedBy, Severity: finding.Error, Subject: finding.Object{Kind: "Pod", Name: fingerprint}}
	}
	report := func() *finding.Report {
		return &finding.Report{Findings: []finding.Finding{
			finding_("VD604", "attacher", ""), finding_("VD103", "detach", "attacher"), finding_("VD113", "node", "detach"),
			finding_("VD102", "web-0", ""), finding_("VD102", "web-1", "web-0"), finding_("VD102", "web-2", "web-0"),
		}}
	}
	for _, tc := range []struct{ keep, want, omitted string }{
		{"attacher detach node web-0 web-1 web-2", "web-0< web-1<web-0 web-2<web-0 attacher< detach<attacher node<detach", ""},
		{"detach node", "detach<attacher node<detach", "attacher"},
		{"attacher node", "node<detach attacher<", "detach"},
		{"node", "node<detach", "detach"},
		{"web-1 web-2", "web-1< web-2<web-1", ""},
		{"web-2", "web-2<", ""},
		{"web-0", "web-0<", ""},
	} {
		r := report().Keep(func(f finding.Finding) bool { return slices.Contains(strings.Fields(tc.keep), f.Fingerprint) })
		r = r.Keep(func(finding.Finding) bool { return true })
		var got, omitted []string
		for _, f := range r.Findings {
			got = append(got, f.Fingerprint+"<"+f.CausedBy)
		}
		for _, c := range r.OmittedCauses {
			omitted = append(omitted, c.Fingerprint)
		}
		if strings.Join(got, " ") != tc.want || strings.Join(omitted, " ") != tc.omitted {
			t.Errorf("%s: %v, omitted %v; want %s, omitted %s", tc.keep, got, omitted, tc.want, tc.omitted)
		}
	}
}

// TestRootsLoseNothing: a report that was put together from others, or written by hand, may
// have fingerprints twice, none, or causes in a cycle.
func TestRootsLoseNothing(t *testing.T) {
	f := func(fingerprint, causedBy string) finding.Finding {
		return finding.Finding{Fingerprint: fingerprint, CausedBy: causedBy}
	}
	for _, findings := range [][]finding.Finding{
		{f("", ""), f("", "")},
		{f("a", ""), f("a", ""), f("b", "a")},
		{f("a", "b"), f("b", "a"), f("c", "")},
		{f("a", "a")},
		{f("a", "elsewhere"), f("b", "a")},
	} {
		r := finding.New(finding.Report{Findings: findings})
		n := 0
		for _, tree := range r.Roots() {
			n += len(tree)
		}
		if n != len(findings) || len(r.Findings) != n {
			t.Errorf("%d of %d findings are in the trees of %+v", n, len(findings), findings)
		}
	}
}
