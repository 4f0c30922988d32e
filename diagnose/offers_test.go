package diagnose_test

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// offers matches a command that writes.
var offers = regexp.MustCompile(`kubectl [^\n]*(--apply\b|\b(delete|patch|taint|annotate|replace|create|edit)\b)[^\n]*|apply the repair`)

// refusals are the numbers of refused repairs, and of those that a person could have made by
// hand.
type refusals struct{ refused, byHand int }

// areNotOffered counts the refusals of a cluster. Where a guard refuses a repair and no flag
// overrides that, the finding has neither commands nor the advice to do the same by hand, and
// no format shows any but those of looks.
func (n *refusals) areNotOffered(t rapid.TB, s *snapshot.Snapshot, settings diagnose.Options) {
	before := map[string]string{}
	for _, f := range diagnose.Diagnose(s, settings).Findings {
		before[f.Fingerprint] = f.ByHand
	}
	view, _ := repair.Examine(s, settings.Reconcile, repair.Consent{}, diagnose.Request{Checks: settings.Checks})
	printed := 0
	for _, f := range view.Report.Findings {
		if f.ByHand != "" {
			t.Fatalf("%s: what is done by hand was not decided about: %q", f.Code, f.ByHand)
		}
		if f.Repair == nil || f.Repair.BlockedBy == "" || len(f.Repair.Commands) > 0 {
			continue
		}
		n.refused++
		if len(f.AdviceCommands)+len(f.Repair.Needs) > 0 || f.Repair.Apply != "" {
			t.Fatalf("%s is refused (%s) and offers %v %v %s", f.Code, f.Repair.BlockedBy, f.AdviceCommands, f.Repair.Needs, f.Repair.Apply)
		}
		if text := before[f.Fingerprint]; text != "" {
			n.byHand++
			if strings.Contains(f.Advice, text) {
				t.Fatalf("%s is refused (%s) and advised by hand: %s", f.Code, f.Repair.BlockedBy, f.Advice)
			}
		}
		if printed++; printed > 2 {
			continue // formats are slow, and treat all findings alike
		}
		only := *view.Report
		only.Findings = []finding.Finding{f}
		looks := len(slices.DeleteFunc(finding.ActionsOf(f, only.TakenAt.Time), func(a finding.Action) bool { return a.Kind != finding.Look || a.Command == "" }))
		for _, format := range output.ReportFormats.Names() {
			var b bytes.Buffer
			if err := output.ReportFormats.Print(&b, format, &only, output.Options{}); err != nil {
				t.Fatal(err)
			}
			text := b.String()
			if format == "sarif" { // the rules of this format are the pages of the checks
				_, text, _ = strings.Cut(text, `"results": [`)
			}
			// this format also ends with the pages, whose commands are general and have no
			// button
			if format == "html" {
				before, pages, found := strings.Cut(text, `<section aria-labelledby="pages">`)
				if !found || strings.Contains(pages, `class="command"`) {
					t.Fatalf("%s: the pages of the checks are not set apart", f.Code)
				}
				text = before
				if n := strings.Count(text, `class="command"`); n != looks {
					t.Fatalf("%s is refused (%s): %d commands, of which %d look", f.Code, f.Repair.BlockedBy, n, looks)
				}
			}
			text = strings.ReplaceAll(text, `\n`, "\n") // in a string of SARIF or JSON
			if m := offers.FindString(text); m != "" {
				t.Fatalf("%s is refused (%s), and %s has %q", f.Code, f.Repair.BlockedBy, format, m)
			}
		}
	}
}

func (n *refusals) shown(t *testing.T) {
	if n.refused < 5 || n.byHand < 1 {
		t.Errorf("%d repairs were refused, %d of which a person could have made by hand: this shows little", n.refused, n.byHand)
	}
	t.Logf("%d repairs refused, %d with a way by hand", n.refused, n.byHand)
}

// TestNothingRefusedIsOffered checks each case of the corpus.
func TestNothingRefusedIsOffered(t *testing.T) {
	var n refusals
	for _, c := range corpus(t) {
		n.areNotOffered(t, c.snapshot(t), diagnose.Options{Reconcile: c.settings})
	}
	n.shown(t)
}

// TestNothingRefusedIsOfferedAnywhere checks random clusters.
func TestNothingRefusedIsOfferedAnywhere(t *testing.T) {
	long.Test(t) // -short draws so few clusters that few repairs are refused
	cases := corpusSnapshots(t)
	var n refusals
	rapid.Check(t, func(t *rapid.T) { n.areNotOffered(t, testcases.Draw(t, cases), drawSettings(t)) })
	n.shown(t)
}
