package load_test

import (
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/load"
)

// TestDrifts: what was broken is found, and nothing else.
func TestDrifts(t *testing.T) {
	for _, size := range []load.Size{{Nodes: 5, Pods: 200, Volumes: 42}, {Nodes: 50, Pods: 1500, Volumes: 418}, {Nodes: 500, Pods: 15000, Volumes: 3000}} {
		c := load.Cluster{Size: size, Now: time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)}
		s := c.Snapshot()
		if len(s.Pods) != size.Pods || len(s.Nodes) != size.Nodes {
			t.Errorf("%+v: %d pods, %d nodes", size, len(s.Pods), len(s.Nodes))
		}
		if len(c.Drifts()) < 3 {
			t.Errorf("%+v: %v", size, c.Drifts())
		}
		for _, wrong := range load.Compare(c.Drifts(), diagnose.Diagnose(s, diagnose.Options{}).Findings) {
			t.Errorf("%+v: %s", size, wrong)
		}
	}
}

// TestCompare: it notices what is missing and what is too much.
func TestCompare(t *testing.T) {
	drifts := []load.Drift{{Check: "a", Subject: "Pod x"}, {Check: "b", Subject: "Pod y"}}
	f := func(check, name string) finding.Finding {
		return finding.Finding{Check: check, Subject: finding.Object{Kind: "Pod", Name: name}}
	}
	for _, test := range []struct {
		findings []finding.Finding
		wrong    int
	}{
		{[]finding.Finding{f("b", "y"), f("a", "x")}, 0},
		{[]finding.Finding{f("a", "x")}, 1},
		{[]finding.Finding{f("a", "x"), f("b", "y"), f("b", "y")}, 1},
		{[]finding.Finding{f("a", "y"), f("b", "y")}, 2},
	} {
		if wrong := load.Compare(drifts, test.findings); len(wrong) != test.wrong {
			t.Errorf("%v", wrong)
		}
	}
}
