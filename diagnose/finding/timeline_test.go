package finding

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestTimeline tells one finding's story, report by report.
func TestTimeline(t *testing.T) {
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	since := metav1.NewTime(start.Add(-time.Minute))
	f := Finding{Code: "VD301", Check: "inuse-not-attached", Severity: Error, Fingerprint: "a", Cause: "one", Since: &since}
	worse := f
	worse.Cause = "another"
	noSince := Finding{Code: "VD101", Severity: Warning, Fingerprint: "b"}
	all := []Code{"VD101", "VD301"}
	gap := []snapshot.Gap{{Kind: snapshot.Pods, Reason: snapshot.ReasonUnavailable, Detail: "refused"}}
	other := []snapshot.Gap{{Kind: snapshot.Pods, Reason: snapshot.ReasonUnavailable, Detail: "too late"}}
	var timeline Timeline
	for i, step := range []struct {
		what     string
		findings []Finding
		checks   []Code
		gaps     []snapshot.Gap
		want     []string
	}{
		{"it appears", []Finding{f}, all, nil, []string{"appeared a"}},
		{"nothing new", []Finding{f}, all, nil, nil},
		{"another cause", []Finding{worse}, all, nil, []string{"changed a"}},
		{"the check cannot run", nil, []Code{"VD101"}, gap, []string{"gap"}},
		{"the same gap in other words", nil, []Code{"VD101"}, other, nil},
		{"the check runs, but knows less than when it found it", nil, all, gap, nil},
		{"read again, and still there", []Finding{worse}, all, nil, []string{"resumed"}},
		{"the check was lost without a gap", nil, nil, nil, nil},
		{"healed", nil, all, nil, []string{"healed a 2m20s"}},
		{"it comes back, with one more", []Finding{f, noSince}, all, nil, []string{"appeared a", "appeared b"}},
		{"both heal", nil, all, nil, []string{"healed a 2m40s", "healed b 10s"}},
		{"a gap that was there from the start", []Finding{f}, all, gap, []string{"gap", "appeared a"}},
		{"heals in spite of it", nil, all, other, []string{"healed a 3m0s"}},
	} {
		at := metav1.NewTime(start.Add(time.Duration(i) * 10 * time.Second))
		r := &Report{TakenAt: at, Findings: step.findings, Checks: step.checks, Gaps: step.gaps}
		if diff := cmp.Diff(step.want, lines(timeline.Next(r))); diff != "" {
			t.Errorf("%s: %s", step.what, diff)
		}
	}
}

func lines(entries []Entry) []string {
	var all []string
	for _, e := range entries {
		line := string(e.Change)
		if e.Finding != nil {
			line += " " + e.Finding.Fingerprint
		}
		if e.After != "" {
			line += " " + e.After
		}
		all = append(all, line)
	}
	return all
}

// TestTimelineAddsUp: whatever the reports, what the entries tell is what the
// last report has, and nothing heals that a gap may hide.
func TestTimelineAddsUp(t *testing.T) {
	names := []string{"a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		var timeline Timeline
		told := map[string]bool{}
		for range rapid.IntRange(1, 12).Draw(t, "reports") {
			r := &Report{}
			if rapid.Bool().Draw(t, "gap") {
				r.Gaps = []snapshot.Gap{{Kind: snapshot.Pods}}
			}
			for _, name := range names {
				ran := rapid.Bool().Draw(t, "ran "+name)
				if !ran {
					continue
				}
				r.Checks = append(r.Checks, Code(name))
				if rapid.Bool().Draw(t, "found "+name) {
					r.Findings = append(r.Findings, Finding{Code: Code(name), Fingerprint: name})
				}
			}
			for _, e := range timeline.Next(r) {
				switch e.Change {
				case Appeared:
					if told[e.Finding.Fingerprint] {
						t.Fatalf("%s appeared twice", e.Finding.Fingerprint)
					}
					told[e.Finding.Fingerprint] = true
				case Healed:
					if !told[e.Finding.Fingerprint] || !slices.Contains(r.Checks, e.Finding.Code) {
						t.Fatalf("%s healed, and its check did not run, or it was not there", e.Finding.Fingerprint)
					}
					delete(told, e.Finding.Fingerprint)
				case Changed:
					t.Fatalf("%s changed, and it did not", e.Finding.Fingerprint)
				}
			}
			for _, name := range names {
				found := find(r.Findings, name) >= 0
				if found && !told[name] {
					t.Fatalf("%s is there and was not told", name)
				}
				if !found && told[name] && len(r.Gaps) == 0 && slices.Contains(r.Checks, Code(name)) {
					t.Fatalf("%s is gone for certain, and its healing was not told", name)
				}
			}
		}
	})
}
