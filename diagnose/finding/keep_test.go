package finding

import "testing"

// TestKeepPersisting: what only the second look finds goes, unless it alone answers
// for a pod that is stuck.
func TestKeepPersisting(t *testing.T) {
	about := func(code Code, severity Severity, pods ...string) Finding {
		return Finding{Code: code, Severity: severity, Pods: pods, Fingerprint: string(code)}
	}
	earlier := &Report{Findings: []Finding{about("VD301", Error, "a/old")}}
	r := &Report{
		Findings: []Finding{
			about("VD301", Error, "a/old"), about("VD302", Error, "a/old"), about("VD303", Error, "a/new"), about("VD304", Info, "a/new"), about("VD305", Error, "a/fine"),
		},
		Waiting: []Waiting{{Pod: "a/old", Verdict: Stuck}, {Pod: "a/new", Verdict: Stuck}, {Pod: "a/fine", Verdict: InFlight}},
	}
	r = r.KeepPersisting(earlier)
	got := map[Code]Confidence{}
	for _, f := range r.Findings {
		got[f.Code] = f.Confidence
	}
	if len(got) != 2 || got["VD303"] != Suspected {
		t.Errorf("kept %v, want VD301, which persists, and VD303, suspected", got)
	}
	if confidence, kept := got["VD301"]; !kept || confidence != "" {
		t.Errorf("VD301 persists: kept %v, %q", kept, confidence)
	}
}
