package finding

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestKeepPersisting: a finding that only the second look has is dropped, unless it alone
// explains a stuck pod.
func TestKeepPersisting(t *testing.T) {
	about := func(code Code, severity Severity, pods ...string) Finding {
		return Finding{Code: code, Severity: severity, Pods: pods, Fingerprint: string(code)}
	}
	began := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	soon := about("VD306", Warning, "a/soon")
	soon.Confidence, soon.Settles = Suspected, &Settles{At: metav1.NewTime(began.Add(31 * time.Second)), If: "nothing about it changes"}
	soon.Cause = "it hangs; suspected, and certain at 2026-11-20T10:00:31Z if nothing about it changes"
	earlier := &Report{TakenAt: metav1.NewTime(began), Findings: []Finding{about("VD301", Error, "a/old")}}
	r := &Report{
		TakenAt: metav1.NewTime(began.Add(30 * time.Second)),
		Findings: []Finding{
			soon,
			about("VD301", Error, "a/old"), about("VD302", Error, "a/old"), about("VD303", Error, "a/new"), about("VD304", Info, "a/new"), about("VD305", Error, "a/fine"),
		},
		Waiting: []Waiting{{Pod: "a/old", Verdict: Stuck}, {Pod: "a/new", Verdict: Stuck}, {Pod: "a/soon", Verdict: Stuck}, {Pod: "a/fine", Verdict: InFlight}},
	}
	r = r.KeepPersisting(earlier)
	got := map[Code]Confidence{}
	for _, f := range r.Findings {
		got[f.Code] = f.Confidence
	}
	if len(got) != 3 || got["VD303"] != Suspected || got["VD306"] != Suspected {
		t.Errorf("kept %v, want VD301, which persists, and VD303 and VD306, suspected", got)
	}
	const again = "suspected, and certain at 2026-11-20T10:01:00Z if "
	for _, f := range r.Findings {
		if f.Settles != nil && (!f.Settles.At.Equal(&metav1.Time{Time: began.Add(time.Minute)}) || !strings.HasSuffix(f.Cause, again+f.Settles.If)) {
			t.Errorf("%s is certain before a third look that is as much later: %+v, %s", f.Code, f.Settles, f.Cause)
		}
	}
	if confidence, kept := got["VD301"]; !kept || confidence != "" {
		t.Errorf("VD301 persists: kept %v, %q", kept, confidence)
	}
}

// TestFoundAgain: a finding that one look cannot distinguish from a state that passes becomes
// certain, with its severity and cause, once looks have found it for the time that it asks for.
func TestFoundAgain(t *testing.T) {
	began := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for after, want := range map[time.Duration]Confidence{0: Suspected, 59 * time.Second: Suspected, time.Minute: "", time.Hour: ""} {
		f := Finding{Code: "VD116", Severity: Error, Cause: "it was detached by force", Fingerprint: "1"}
		suspected := f.UntilAgain(began, time.Minute, "it passes")
		if suspected.Severity != Warning || suspected.Confidence != Suspected || !suspected.Settles.At.Time.Equal(began.Add(time.Minute)) {
			t.Errorf("one look makes it %+v", suspected)
		}
		first := &Report{TakenAt: metav1.NewTime(began), Findings: []Finding{suspected}}
		since := (&Report{TakenAt: metav1.NewTime(began.Add(after)), Findings: []Finding{suspected}}).FoundSince(first.FoundSince(nil))
		r := (&Report{TakenAt: metav1.NewTime(began.Add(after)), Findings: []Finding{suspected}}).FoundAgain(since)
		switch got := r.Findings[0]; {
		case got.Confidence != want:
			t.Errorf("%s later it is %q", after, got.Confidence)
		case want == "" && (got.Severity != Error || got.Cause != f.Cause || got.Settles != nil || r.Summary.Error != 1):
			t.Errorf("%s later it is %+v, counted %+v", after, got, r.Summary)
		}
	}
	r := &Report{Findings: []Finding{{Fingerprint: "2"}}}
	if again := r.FoundSince(map[string]metav1.Time{"1": metav1.NewTime(began)}); len(again) != 1 || again["2"] != r.TakenAt {
		t.Errorf("what is gone was found since %v", again)
	}
}
