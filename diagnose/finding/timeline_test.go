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

// TestTimeline follows one finding, report by report.
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
		if diff := cmp.Diff(step.want, lines(timeline.Next(r, nil))); diff != "" {
			t.Errorf("%s: %s", step.what, diff)
		}
	}
}

// TestAgesAreNoChange: a cause in which only an age or a time has changed is the same cause.
// Otherwise a watch would print a line at each look.
func TestAgesAreNoChange(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC))
	for _, tt := range []struct {
		before, now string
		changed     bool
	}{
		{"that usually ends by itself, and has not for 10m24s", "that usually ends by itself, and has not for 10m39s", false},
		{"certain at 2026-11-20T10:11:15Z if the driver refuses", "certain at 2026-11-20T10:11:30Z if the driver refuses", false},
		{"since 09:59:58", "since 10:00:13", false},
		{"has waited for 59s", "has waited for 1m0s", false},
		{"has waited for 1d2h", "has waited for 2d", false},
		{"on node n1", "on node n2", true},
		{"2 of 3 pods", "3 of 3 pods", true},
		{"10m24s", "nothing", true},
	} {
		var timeline Timeline
		f := Finding{Code: "VD301", Severity: Error, Fingerprint: "a", Cause: tt.before}
		_ = timeline.Next(&Report{TakenAt: at, Findings: []Finding{f}, Checks: []Code{"VD301"}}, nil)
		f.Cause = tt.now
		if entries := timeline.Next(&Report{TakenAt: at, Findings: []Finding{f}, Checks: []Code{"VD301"}}, nil); (len(entries) > 0) != tt.changed {
			t.Errorf("%q, then %q: %v", tt.before, tt.now, lines(entries))
		}
	}
}

// TestTimelineUnderAGap: while the check that knows best cannot run, another check's finding
// about the same failure does not appear beside it; a worse one, or one about more, does.
func TestTimelineUnderAGap(t *testing.T) {
	all, some := []Code{"VD101", "VD301", "VD409"}, []Code{"VD101", "VD409"}
	gap := []snapshot.Gap{{Kind: snapshot.Claims, Reason: snapshot.ReasonUnavailable}}
	known := Finding{Code: "VD301", Severity: Warning, Fingerprint: "known", Pods: []string{"shop/web-0", "shop/web-1"}, Volume: "v", Node: "n1"}
	remainder := func(severity Severity, pods ...string) Finding {
		return Finding{Code: "VD409", Severity: severity, Fingerprint: "rest", Pods: pods}
	}
	for what, test := range map[string]struct {
		found Finding
		want  []string
	}{
		"the same pods":          {remainder(Warning, "shop/web-1", "shop/web-0"), []string{"gap"}},
		"one of them":            {remainder(Info, "shop/web-1"), []string{"gap"}},
		"one more":               {remainder(Warning, "shop/web-0", "shop/web-2"), []string{"gap", "appeared rest"}},
		"worse":                  {remainder(Error, "shop/web-0"), []string{"gap", "appeared rest"}},
		"the volume on its node": {Finding{Code: "VD101", Severity: Info, Fingerprint: "va", Volume: "v", Node: "n1"}, []string{"gap"}},
		"the volume elsewhere":   {Finding{Code: "VD101", Severity: Info, Fingerprint: "va", Volume: "v", Node: "n2"}, []string{"gap", "appeared va"}},
		"something else":         {Finding{Code: "VD101", Severity: Info, Fingerprint: "va", Subject: Object{Kind: "Node", Name: "n1"}}, []string{"gap", "appeared va"}},
	} {
		var timeline Timeline
		timeline.Next(&Report{Findings: []Finding{known}, Checks: all}, nil)
		if diff := cmp.Diff(test.want, lines(timeline.Next(&Report{Findings: []Finding{test.found}, Checks: some, Gaps: gap}, nil))); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		// Once everything can be read, nothing is held back.
		timeline.Next(&Report{Findings: []Finding{known, test.found}, Checks: all}, nil)
		if n := len(timeline.Standing()); n != 2 {
			t.Errorf("%s: %d findings stand after the gap", what, n)
		}
	}
}

// TestTimelineUndecided: a finding whose check has started its wait again has neither healed
// nor, when it is found again, appeared.
func TestTimelineUndecided(t *testing.T) {
	f := Finding{Code: "VD116", Severity: Warning, Fingerprint: "a"}
	found, lost := &Report{Findings: []Finding{f}, Checks: []Code{"VD116"}}, &Report{Checks: []Code{"VD116"}}
	begunAnew := func(g Finding) bool { return g.Fingerprint == "a" }
	healed := func(Finding) bool { return false }
	var timeline Timeline
	for i, step := range []struct {
		report    *Report
		undecided func(Finding) bool
		want      []string
	}{
		{found, healed, []string{"appeared a"}},
		{lost, begunAnew, nil},
		{found, healed, nil},
		{lost, begunAnew, nil},
		{lost, healed, []string{"healed a 0s"}},
	} {
		if diff := cmp.Diff(step.want, lines(timeline.Next(step.report, step.undecided))); diff != "" {
			t.Errorf("report %d: %s", i+1, diff)
		}
	}
}

// TestStanding: a finding that a gap hides still stands, and the worst come first.
func TestStanding(t *testing.T) {
	start := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	at := func(seconds int) metav1.Time { return metav1.NewTime(start.Add(time.Duration(seconds) * time.Second)) }
	since := at(-60)
	old := Finding{Code: "VD301", Severity: Error, Fingerprint: "old", Since: &since}
	young := Finding{Code: "VD101", Severity: Warning, Fingerprint: "young"}
	var timeline Timeline
	timeline.Next(&Report{TakenAt: at(0), Findings: []Finding{young}, Checks: []Code{"VD101", "VD301"}}, nil)
	timeline.Next(&Report{TakenAt: at(10), Findings: []Finding{old, young}, Checks: []Code{"VD101", "VD301"}}, nil)
	timeline.Next(&Report{TakenAt: at(20), Checks: []Code{}, Gaps: []snapshot.Gap{{Kind: snapshot.Pods}}}, nil)
	got := timeline.Standing()
	if len(got) != 2 || got[0].Fingerprint != "old" || got[1].Fingerprint != "young" {
		t.Fatalf("%+v", got)
	}
	if got[0].Began() != since || got[1].Began() != at(0) || got[1].Last != at(10) {
		t.Errorf("began %v and %v, last %v", got[0].Began(), got[1].Began(), got[1].Last)
	}
	timeline.Next(&Report{TakenAt: at(30), Checks: []Code{"VD101", "VD301"}}, nil)
	if n := len(timeline.Standing()); n != 0 {
		t.Errorf("%d findings stand though all checks ran and found none", n)
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

// TestTimelineAddsUp: for any reports, the entries add up to the last report, and nothing heals
// that a gap may hide.
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
			for _, e := range timeline.Next(r, nil) {
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
