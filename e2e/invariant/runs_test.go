package invariant

import (
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// ofRuns are the invariants of runs.go. What other tests spoil of a write they do
// not write into the journal, so those look past them.
var ofRuns = []Invariant{Honest, Kept, Complete, NothingLeft, OwnOnly}

func withoutRuns(violations []Violation) []Violation {
	return slices.DeleteFunc(violations, func(v Violation) bool { return slices.Contains(ofRuns, v.Invariant) })
}

// outcome changes the outcome of a write in the healthy history's journal.
func (h *History) outcome(write int, outcome apply.Outcome) {
	for i, e := range h.Journals[0].Entries {
		if e.Type == apply.Ended && e.Write == write {
			h.Journals[0].Entries[i].Outcome = outcome
		}
	}
}

// another gives the history a second run that sent the same patch and was refused,
// and its journal.
func (h *History) another() {
	e := *h.of("admin.30")
	e.AuditID = "other.30"
	e.ResponseStatus = &metav1.Status{Code: 409}
	h.Audit = append(h.Audit, e)
	h.Sent["other.30"] = h.Sent["admin.30"]
	intent := h.Journals[0].Entries[2]
	h.Journals = append(h.Journals, Journal{Name: "other.journal", Entries: []apply.Entry{intent, {Type: apply.Ended, Write: 2, Outcome: apply.NotWritten, Time: metav1.NewTime(at(40))}}})
}

// TestRunsFire spoils the healthy history in one place at a time.
func TestRunsFire(t *testing.T) {
	fired := map[Invariant]bool{}
	for what, c := range map[string]struct {
		want  Invariant
		spoil func(*History)
	}{
		"NotWritten of a patch that was stored":    {Honest, func(h *History) { h.outcome(2, apply.NotWritten) }},
		"NotWritten of a deletion that was stored": {Honest, func(h *History) { h.outcome(1, apply.NotWritten) }},
		"Repaired by a patch that never arrived": {Honest, func(h *History) {
			h.Audit = slices.DeleteFunc(h.Audit, func(e auditv1.Event) bool { return e.AuditID == "admin.30" })
		}},
		"Repaired by a patch that was refused": {Honest, func(h *History) { h.of("admin.30").ResponseStatus.Code = 422 }},
		"Undone by a deletion that never arrived, and the controller had written before": {Honest, func(h *History) {
			h.outcome(1, apply.Undone)
			e := h.of("admin.5")
			e.User.Username = "controller"
			e.StageTimestamp = metav1.NewMicroTime(at(3))
			h.Journals[0].Entries[0].Time = metav1.NewTime(at(4))
		}},
		"a deletion said to be made that another run made later": {Honest, func(h *History) {
			e := h.of("admin.5")
			h.Sent["other.20"] = h.Sent["admin.5"]
			e.AuditID, e.StageTimestamp = "other.20", metav1.NewMicroTime(at(20))
			h.Journals[0].Entries[1].Time = metav1.NewTime(at(9))
			h.Journals = append(h.Journals, Journal{Name: "other.journal", Entries: h.Journals[0].Entries[:1]})
		}},
		"Repaired, and somebody else did it later": {Honest, func(h *History) {
			e := h.of("admin.5")
			e.User.Username = "controller"
			e.StageTimestamp = metav1.NewMicroTime(at(20))
			h.Journals[0].Entries[0].Time, h.Journals[0].Entries[1].Time = metav1.NewTime(at(4)), metav1.NewTime(at(9))
		}},
		"two runs say Repaired of one patch that never arrived": {Honest, func(h *History) {
			h.another()
			h.Journals[1].Entries[1].Outcome = apply.Repaired
			h.Audit = slices.DeleteFunc(h.Audit, func(e auditv1.Event) bool { return strings.HasSuffix(string(e.AuditID), ".30") })
		}},
		"a journal without the entry": {Kept, func(h *History) { h.Journals[0].Entries = h.Journals[0].Entries[:2] }},
		"a journal that is gone":      {Kept, func(h *History) { h.Journals = nil }},
		"a journal that is no longer one": {Kept, func(h *History) {
			h.Journals = append(h.Journals, Journal{Name: "x", Err: errors.New("line 1 of the journal is no entry")})
		}},
		"two runs in one journal, and one entry": {Kept, func(h *History) {
			h.another()
			h.Journals = h.Journals[:1]
		}},
		"code 0 after an incomplete look": {Complete, func(h *History) { h.Runs[0].Missing = []string{"pods"} }},
		"a deletion said to show that never arrived": {Honest, func(h *History) {
			h.outcome(1, apply.Unverified)
			h.Journals[0].Entries[1].Detail = "the answer was lost, but the object shows the write; something has overwritten it since"
			h.Audit = slices.DeleteFunc(h.Audit, func(e auditv1.Event) bool { return e.AuditID == "admin.5" })
		}},
		"a write to another server's objects": {OwnOnly, func(h *History) { h.Runs[0].Foreign = "it is another server" }},
		"code 0 and something left":           {NothingLeft, func(h *History) { h.Runs[0].Left = []string{"the taint"} }},
	} {
		t.Run(what, func(t *testing.T) {
			h := healthy(t)
			c.spoil(h)
			violations := h.Check()
			if len(violations) == 0 || slices.ContainsFunc(violations, func(v Violation) bool { return v.Invariant != c.want }) {
				t.Errorf("not %q: %v", c.want, violations)
			}
		})
		fired[c.want] = true
	}
	for _, i := range ofRuns {
		if !fired[i] {
			t.Errorf("nothing here fires %q", i)
		}
	}
}

// TestRunsNearMisses are one fact short of a violation.
func TestRunsNearMisses(t *testing.T) {
	for what, spare := range map[string]func(*History){
		"it does not claim to know":    func(h *History) { h.outcome(2, apply.Unverified) },
		"it was killed":                func(h *History) { h.Journals[0].Entries = h.Journals[0].Entries[:3] },
		"each of two runs has its own": func(h *History) { h.another() },
		"code 3 after an incomplete look": func(h *History) {
			h.Runs[0] = Run{Name: "admin", Code: 3, Missing: []string{"pods"}}
		},
		"the patch was refused, and that is what the journal says": func(h *History) {
			h.of("admin.30").ResponseStatus.Code = 409
			h.outcome(2, apply.NotWritten)
		},
		"another doctor's patch was the same": func(h *History) {
			h.another()
			h.Journals[1].Entries[1].Outcome = apply.Repaired
		},
		"the controller has done the same since": func(h *History) {
			e := h.of("admin.5")
			e.User.Username, e.AuditID = "controller", "c"
			h.Journals[0].Entries[0].Time, h.Journals[0].Entries[1].Time = metav1.NewTime(at(4)), metav1.NewTime(at(9))
		},
		"another doctor has done the same since": func(h *History) {
			h.another()
			h.Journals[1].Entries[1].Outcome = apply.Repaired
			later := *h.of("admin.30")
			later.AuditID, later.RequestObject = "third.31", later.RequestObject.DeepCopy()
			later.RequestObject.Raw = []byte(strings.Replace(patch, `"7"`, `"8"`, 1))
			h.of("admin.30").ResponseStatus = &metav1.Status{Code: 409}
			h.Audit = append(h.Audit, later)
			op := *h.Journals[0].Entries[2].Operation
			op.Patch = later.RequestObject.Raw
			third := []apply.Entry{{Type: apply.Intent, Write: 1, Written: repair.Written{Operation: &op}}, {Type: apply.Ended, Write: 1, Outcome: apply.Repaired, Time: metav1.NewTime(at(40))}}
			h.Sent["third.31"] = Sent{Looked: at(28), Journal: third[:1]}
			h.Journals = append(h.Journals, Journal{Name: "third.journal", Entries: third})
		},
	} {
		t.Run(what, func(t *testing.T) {
			h := healthy(t)
			spare(h)
			if violations := h.Check(); len(violations) != 0 {
				t.Error(violations)
			}
		})
	}
}
