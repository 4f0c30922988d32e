package repair

import (
	"regexp"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
)

// leans matches the start of a sentence that cannot be read without the one before it.
var leans = regexp.MustCompile(`(?i)^(?:then|also|and|once)\b`)

// commandsObject finds the name of a command's object.
var commandsObject = regexp.MustCompile(`^kubectl .*?\b[a-z]+/([a-z0-9][a-z0-9.-]*)`)

// TestActions: over the corpus each finding has actions. The sentence of an action names the
// object of its command, and nobody is told to wait for a finding that does not heal.
func TestActions(t *testing.T) {
	kinds := map[finding.ActionKind]int{}
	eachLook(t, func(c *testcases.Case, view *View) {
		propose(view)
		for _, f := range view.Report.Findings {
			if f.Repair != nil && len(f.Repair.Commands) > 0 {
				f.Repair.Apply = "kubectl volume-doctor diagnose --apply"
			}
			actions := finding.ActionsOf(f, view.Snapshot.TakenAt)
			if len(actions) == 0 && (f.Repair == nil || f.Repair.BlockedBy == "") {
				t.Errorf("%s: %s has nothing to do", c.Name, f.Code)
			}
			for _, a := range actions {
				kinds[a.Kind]++
				if a.Sentence == "" || a.When == "" || leans.MatchString(a.Sentence) {
					t.Errorf("%s: %s: %+v", c.Name, f.Code, a)
				}
				if name := a.Object[strings.LastIndex(a.Object, "/")+1:]; a.Told && (name == "" || !strings.Contains(a.Sentence, name) || !strings.Contains(a.Command, name)) {
					t.Errorf("%s: %s: %q is not about %q: %s", c.Name, f.Code, a.Sentence, a.Object, a.Command)
				}
				if m := commandsObject.FindStringSubmatch(a.Command); m != nil && a.Kind != finding.ApplyRepair && !strings.Contains(a.Sentence, m[1]) {
					t.Errorf("%s: %s: %q does not name the object of: %s", c.Name, f.Code, a.Sentence, a.Command)
				}
				if a.Kind == finding.DoAsTheySay {
					t.Errorf("%s: %s: its author does not say what %q changes: mark it change, final, fix or note", c.Name, f.Code, a.Sentence)
				}
				if a.Kind == finding.Wait && f.Stays() {
					t.Errorf("%s: %s does not heal, and: %s", c.Name, f.Code, a.Sentence)
				}
				if a.Kind == finding.ApplyRepair && (a.Command == "" || f.Repair.Apply == "") {
					t.Errorf("%s: %s: %+v", c.Name, f.Code, a)
				}
			}
		}
	})
	for _, kind := range []finding.ActionKind{finding.Look, finding.FixObject, finding.MakeSafe, finding.PowerOff, finding.ApplyRepair, finding.Wait, "change", "final", "fix", "note"} {
		if kinds[kind] == 0 {
			t.Errorf("no case has an action of kind %s: %v", kind, kinds)
		}
	}
}
