package cmd

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/long"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestNarrowAnswersForStuckPods: whichever node is asked about, a stuck pod on it has a
// finding that makes the command fail; only findings about the node are repaired.
func TestNarrowAnswersForStuckPods(t *testing.T) {
	long.Test(t)
	stuck, beyond := 0, 0
	for _, c := range corpus(t) {
		s := read(t, c)
		for _, node := range s.Nodes {
			on := []target{{kind: snapshot.Nodes, name: types.NamespacedName{Name: node.Name}}}
			about := func(repairs bool) *finding.Report {
				view, _ := repair.Examine(s, c.Settings, repair.Consent{}, diagnose.Request{Scope: scopeOf(s, on, "", repairs)})
				return view.Report
			}
			r := about(false)
			for _, w := range r.Waiting {
				if w.Node != node.Name {
					t.Errorf("%s: %s is on %q, not on %s", c.Name, w.Pod, w.Node, node.Name)
				}
				if w.Verdict != finding.Stuck {
					continue
				}
				stuck++
				if !slices.ContainsFunc(r.Findings, func(f finding.Finding) bool { return f.Severity.AtLeast(finding.Warning) && f.Names(w.Pod) }) {
					t.Errorf("%s: no finding says why %s on %s is stuck", c.Name, w.Pod, node.Name)
				}
			}
			repairs := about(true)
			beyond += len(r.Findings) - len(repairs.Findings)
			for _, f := range repairs.Findings {
				if !on[0].concerns(f, s) {
					t.Errorf("%s: %s would be repaired, and is not about %s", c.Name, f.Code, node.Name)
				}
			}
		}
	}
	if stuck < 50 || beyond == 0 {
		t.Errorf("%d stuck pods, %d findings beyond the node: this shows little", stuck, beyond)
	}
}
