package diagnose

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// exercised are the links of all cases, by the codes of cause and effect, as the
// cases have them in their expectations, which TestCorpus holds them to.
func exercised(t *testing.T) map[[2]Code]bool {
	paths, err := filepath.Glob("../testdata/cases/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	line := regexp.MustCompile(`(?m)^(?:(?:error|warning|info)|  follows from) (VD\d{3}) `)
	links := map[[2]Code]bool{}
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, findings, _ := strings.Cut(string(data), "-- want-findings.txt --\n")
		var last Code
		for _, m := range line.FindAllStringSubmatch(findings, -1) {
			code := Code(m[1])
			if strings.HasPrefix(m[0], "  follows") {
				links[[2]Code{code, last}] = true
			} else {
				last = code
			}
		}
	}
	return links
}

// TestCausesAreExercised: every code of every row is at work in some case.
func TestCausesAreExercised(t *testing.T) {
	links := exercised(t)
	seen := func(causes, effects []Code) bool {
		for _, cause := range causes {
			for _, effect := range effects {
				if links[[2]Code{cause, effect}] {
					return true
				}
			}
		}
		return false
	}
	for _, rule := range causalRules {
		for _, cause := range rule.causes {
			if !seen(codes(cause), rule.effects) {
				t.Errorf("no case has %s bring about any of %v", cause, rule.effects)
			}
		}
		for _, effect := range rule.effects {
			if !seen(rule.causes, codes(effect)) {
				t.Errorf("no case has %s follow from any of %v", effect, rule.causes)
			}
		}
	}
	for _, k := range kinships {
		for _, code := range k.codes {
			if !seen(codes(code), k.codes) && !seen(k.codes, codes(code)) {
				t.Errorf("no case has %s share its cause with another of %v", code, k.codes)
			}
		}
	}
}

// TestCausesShareWhatTheyAreFoundBy: no row passes over a cause for what it is
// found by.
func TestCausesShareWhatTheyAreFoundBy(t *testing.T) {
	paths, err := filepath.Glob("../testdata/cases/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	matches := make([]int, len(causalRules))
	for _, path := range paths {
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == "cluster.yaml" })
		s, _, err := snapshot.Read(path, bytes.NewReader(archive.Files[i].Data), snapshot.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		world := reconcile.NewWorld(s, reconcile.Options{})
		p := &Pass{Snapshot: s, World: world, Plan: world.Reconcile()}
		findings := Examine(s, world, p.Plan, nil).Findings
		for i, rule := range causalRules {
			for _, cause := range findings {
				for _, effect := range findings {
					if rule.by == nil || !slices.Contains(rule.causes, cause.Code) || !slices.Contains(rule.effects, effect.Code) || !rule.match(p, cause, effect) {
						continue
					}
					matches[i]++
					if rule.by(cause) != rule.by(effect) {
						t.Errorf("%s: %s brings about %s, and they share nothing: %q", path, cause.Code, effect.Code, []string{rule.by(cause), rule.by(effect)})
					}
				}
			}
		}
	}
	for i, rule := range causalRules {
		if rule.by != nil && matches[i] == 0 {
			t.Errorf("no case has any of %v bring about any of %v", rule.causes, rule.effects)
		}
	}
}

// TestCausesAreCodes: the tables name checks that there are, and each pair of
// them once.
func TestCausesAreCodes(t *testing.T) {
	known := map[Code]bool{}
	for _, c := range Checks() {
		known[c.Code] = c.Run != nil
	}
	for _, rule := range causalRules {
		for _, code := range slices.Concat(rule.causes, rule.effects) {
			if !known[code] {
				t.Errorf("%s has no check", code)
			}
		}
		for _, cause := range rule.causes {
			for _, effect := range rule.effects {
				if areKin(cause, effect) {
					t.Errorf("%s both causes %s and is its kin: a narrowed report could not tell which", cause, effect)
				}
			}
		}
	}
	for _, k := range kinships {
		for _, code := range k.codes {
			if !known[code] {
				t.Errorf("%s has no check", code)
			}
		}
	}
}

// TestCausesHaveNoCycles: no code brings about itself, however far around. Kin
// follow only from one that follows from nothing, and close no circle.
func TestCausesHaveNoCycles(t *testing.T) {
	effects := map[Code][]Code{}
	for _, rule := range causalRules {
		for _, cause := range rule.causes {
			effects[cause] = append(effects[cause], rule.effects...)
		}
	}
	var visit func(path []Code)
	visit = func(path []Code) {
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
		visit([]Code{cause})
	}
}

// TestNarrowedReportNamesCauses: what was not asked for is named in words where
// it is the cause, and only replaced where it stood for others like it.
func TestNarrowedReportNamesCauses(t *testing.T) {
	finding := func(code Code, fingerprint, causedBy string) Finding {
		return Finding{Code: code, Fingerprint: fingerprint, CausedBy: causedBy, Severity: Error, Subject: Object{Kind: "Pod", Name: fingerprint}}
	}
	report := func() *Report {
		return &Report{Findings: []Finding{
			finding("VD604", "attacher", ""), finding("VD103", "detach", "attacher"), finding("VD113", "node", "detach"),
			finding("VD102", "web-0", ""), finding("VD102", "web-1", "web-0"), finding("VD102", "web-2", "web-0"),
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
		r := report()
		r.Keep(func(f Finding) bool { return slices.Contains(strings.Fields(tc.keep), f.Fingerprint) })
		r.Keep(func(Finding) bool { return true })
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

// TestRootsLoseNothing: a report that was put together from others, or written
// by hand, may have fingerprints twice, none, or causes in a circle.
func TestRootsLoseNothing(t *testing.T) {
	f := func(fingerprint, causedBy string) Finding {
		return Finding{Fingerprint: fingerprint, CausedBy: causedBy}
	}
	for _, findings := range [][]Finding{
		{f("", ""), f("", "")},
		{f("a", ""), f("a", ""), f("b", "a")},
		{f("a", "b"), f("b", "a"), f("c", "")},
		{f("a", "a")},
		{f("a", "elsewhere"), f("b", "a")},
	} {
		r := &Report{Findings: slices.Clone(findings)}
		r.settle()
		n := 0
		for _, tree := range r.Roots() {
			n += len(tree)
		}
		if n != len(findings) || len(r.Findings) != n {
			t.Errorf("%d of %d findings are in the trees of %+v", n, len(findings), findings)
		}
	}
}
