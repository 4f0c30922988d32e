package diagnose_test

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
)

// causesHold fails where a finding's cause is not in the report, comes after it or leads back
// to it, or where the trees of Roots are not the findings.
func causesHold(t interface{ Errorf(string, ...any) }, r *finding.Report) {
	place := map[string]int{}
	for i, f := range r.Findings {
		if _, twice := place[f.Fingerprint]; twice {
			t.Errorf("%s stands there twice: %s", f.Code, f.Message)
		}
		place[f.Fingerprint] = i
	}
	consequences := make([]int, len(r.Findings))
	for i, f := range r.Findings {
		for cause := f.CausedBy; cause != ""; {
			j, ok := place[cause]
			if !ok || j >= i { // each step goes to an earlier one: no cycle
				t.Errorf("%s follows from %q, which is not before it", f.Code, cause)
				break
			}
			consequences[j]++
			i, cause = j, r.Findings[j].CausedBy
		}
	}
	var all []finding.Finding
	for _, tree := range r.Roots() {
		for i, f := range tree {
			if (f.CausedBy == "") != (i == 0) {
				t.Errorf("%s follows from %q and is the %d. of its tree", f.Code, f.CausedBy, i)
			}
		}
		all = append(all, tree...)
	}
	if diff := gocmp.Diff(r.Findings, all, gocmp.Comparer(func(a, b []finding.Finding) bool { return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b) })); diff != "" {
		t.Errorf("the roots are not the findings:\n%s", diff)
	}
	for i, f := range r.Findings {
		if f.Consequences != consequences[i] {
			t.Errorf("%s says that %d follow from it: %d do", f.Code, f.Consequences, consequences[i])
		}
	}
	if s := r.Summary; s.Error+s.Warning+s.Info != len(r.Findings) {
		t.Errorf("the summary %+v is not that of %d findings", s, len(r.Findings))
	}
}

func TestCausesOfRandomClusters(t *testing.T) {
	long.Test(t)
	cases := corpusSnapshots(t)
	linked := 0
	for _, s := range cases {
		for _, f := range diagnose.Diagnose(s, diagnose.Options{}).Findings {
			linked += min(1, len(f.CausedBy))
		}
	}
	if linked == 0 {
		t.Fatal("in no case does anything follow from anything: this would show nothing")
	}
	rapid.Check(t, func(t *rapid.T) {
		s, settings := testcases.Draw(t, cases), drawSettings(t)
		r := diagnose.Diagnose(s, settings)
		causesHold(t, r)

		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "order"), 1))
		o := cloned(s.Objects)
		lists := reflect.ValueOf(&o).Elem()
		for i := range lists.NumField() {
			random.Shuffle(lists.Field(i).Len(), reflect.Swapper(lists.Field(i).Interface()))
		}
		other := diagnose.Diagnose(remade(s, o, s.Gaps), settings)
		if diff := gocmp.Diff(causes(r), causes(other)); diff != "" {
			t.Errorf("the order of the objects changes what follows from what:\n%s", diff)
		}

		asked := map[string]bool{}
		for _, f := range r.Findings {
			asked[f.Fingerprint] = rapid.Bool().Draw(t, "asked for")
		}
		narrowedHolds(t, other, asked)
	})
}

// narrowedHolds fails where narrowing loses a requested finding, or leaves one whose cause the
// report does not name.
func narrowedHolds(t *rapid.T, r *finding.Report, asked map[string]bool) {
	before := causes(r)
	r = r.Keep(func(f finding.Finding) bool { return asked[f.Fingerprint] })
	named := map[string]bool{"": true}
	for _, c := range r.OmittedCauses {
		if named[c.Fingerprint] || asked[c.Fingerprint] || c.Message == "" {
			t.Errorf("%s is named although it is there, or in no words: %+v", c.Code, c)
		}
		named[c.Fingerprint] = true
	}
	kept := 0
	for _, f := range r.Findings {
		named[f.Fingerprint] = true
	}
	for fingerprint := range before {
		if asked[fingerprint] {
			kept++
		}
	}
	if kept != len(r.Findings) {
		t.Errorf("%d of %d findings are left", len(r.Findings), kept)
	}
	for _, f := range r.Findings {
		if !named[f.CausedBy] {
			t.Errorf("%s follows from %s, of which the report says nothing", f.Code, f.CausedBy)
		}
		if (before[f.Fingerprint] == "") && f.CausedBy != "" {
			t.Errorf("%s follows from %s only since the report was narrowed", f.Code, f.CausedBy)
		}
	}
	for _, c := range r.OmittedCauses {
		if !slices.ContainsFunc(r.Findings, func(f finding.Finding) bool { return f.CausedBy == c.Fingerprint }) {
			t.Errorf("nothing follows from %s, which is named", c.Code)
		}
	}
}

func causes(r *finding.Report) map[string]string {
	causes := map[string]string{}
	for _, f := range r.Findings {
		causes[f.Fingerprint] = f.CausedBy
	}
	return causes
}

// TestWorkloadsAndClaims: each owner of the pods, and each claim that leads them to the volume,
// is named once.
func TestWorkloadsAndClaims(t *testing.T) {
	all := corpus(t)
	want := map[string]struct {
		code      finding.Code
		workloads []string
		claims    []string
	}{
		"vd102-forty-pods":      {"VD102", []string{"default/StatefulSet/db"}, []string{"default/data-db-0"}},
		"vd604-ten-pods":        {"VD604", []string{"default/Deployment/web"}, nil},
		"vd117-all-of-one-node": {"VD111", []string{"default/Deployment/web"}, []string{"default/a"}},
	}
	for name, w := range want {
		c := all[slices.IndexFunc(all, func(c *corpusCase) bool { return c.name == name })]
		findings := c.diagnose(c.snapshot(t)).Findings
		f := findings[slices.IndexFunc(findings, func(f finding.Finding) bool { return f.Code == w.code })]
		if !slices.Equal(f.Workloads, w.workloads) || !slices.Equal(f.Claims, w.claims) {
			t.Errorf("%s: workloads %v, claims %v; want %v, %v", name, f.Workloads, f.Claims, w.workloads, w.claims)
		}
	}
}
