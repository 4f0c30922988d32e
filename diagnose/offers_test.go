package diagnose_test

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// offers are a command that writes, and what a page makes a button of.
var offers = regexp.MustCompile(`kubectl [^\n]*(--apply\b|\b(delete|patch|taint|annotate|replace|create|edit)\b)[^\n]*|class="command"|apply the repair`)

// TestNothingRefusedIsOffered: where a guard refuses a repair and no flag lifts that,
// the finding has neither commands nor the advice to do the same by hand, and no
// format shows any, whatever the cluster.
func TestNothingRefusedIsOffered(t *testing.T) {
	cases := corpusSnapshots(t)
	refused, byHand := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s, settings := drawCluster(t, cases), drawSettings(t)
		view := repair.Look(s, settings, repair.Consent{})
		before := map[string]string{}
		for _, f := range view.Report.Findings {
			before[f.Fingerprint] = f.ByHand
		}
		repair.Propose(view)
		printed := 0
		for _, f := range view.Report.Findings {
			if f.ByHand != "" {
				t.Fatalf("%s: what is done by hand was not decided about: %q", f.Code, f.ByHand)
			}
			if f.Repair == nil || f.Repair.BlockedBy == "" || len(f.Repair.Commands) > 0 {
				continue
			}
			refused++
			if len(f.AdviceCommands)+len(f.Repair.Needs) > 0 || f.Repair.Apply != "" {
				t.Fatalf("%s is refused (%s) and offers %v %v %s", f.Code, f.Repair.BlockedBy, f.AdviceCommands, f.Repair.Needs, f.Repair.Apply)
			}
			if text := before[f.Fingerprint]; text != "" {
				byHand++
				if strings.Contains(f.Advice, text) {
					t.Fatalf("%s is refused (%s) and advised by hand: %s", f.Code, f.Repair.BlockedBy, f.Advice)
				}
			}
			if printed++; printed > 2 {
				continue // formats are slow, and treat all findings alike
			}
			only := *view.Report
			only.Findings = []finding.Finding{f}
			for _, format := range output.ReportFormats() {
				var b bytes.Buffer
				if err := output.PrintReport(&b, format, &only, output.Options{}); err != nil {
					t.Fatal(err)
				}
				text := b.String()
				if format == "sarif" { // its rules are the pages of the checks
					_, text, _ = strings.Cut(text, `"results": [`)
				}
				if format == "html" { // so is the end of the page, which says that its commands are general, and has no button
					before, pages, found := strings.Cut(text, `<section aria-labelledby="pages">`)
					if !found || strings.Contains(pages, `class="command"`) {
						t.Fatalf("%s: the pages of the checks are not set apart", f.Code)
					}
					text = before
				}
				if m := offers.FindString(text); m != "" {
					t.Fatalf("%s is refused (%s), and %s has %q", f.Code, f.Repair.BlockedBy, format, m)
				}
			}
		}
	})
	if !testing.Short() && (refused < 5 || byHand < 1) { // of the few clusters that -short draws, few may be refused
		t.Errorf("%d repairs were refused, %d of which a person could have made by hand: this shows little", refused, byHand)
	}
	t.Logf("%d repairs refused, %d with a way by hand", refused, byHand)
}
