package diagnose_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubelet"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testcases"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestKubeletPlanCorpus: the plan of a node and the traces of its pods agree on each volume.
func TestKubeletPlanCorpus(t *testing.T) {
	rows, waits, leftovers := 0, 0, 0
	for _, c := range corpus(t) {
		s := testworld.Mounting(c.snapshot(t))
		for _, node := range s.Nodes {
			for _, text := range testworld.Disagreements(s, c.settings, facts.NodeName(node)) {
				t.Errorf("%s, node %s: %s", c.name, node.Name, text)
			}
			world := reconcile.NewWorld(s, c.settings)
			for _, v := range kubelet.OfNode(facts.NewView(s, world, world.Reconcile()), facts.NodeName(node), nil).Volumes {
				rows++
				waits += facts.BoolToInt(v.State != trace.StageDone)
				leftovers += facts.BoolToInt(len(v.Pods) == 0)
				if v.State != trace.StageDone && (v.Next == "" || v.Stage == "") {
					t.Errorf("%s, node %s: volume %s waits for nothing: %+v", c.name, node.Name, v.Volume, v)
				}
			}
		}
	}
	if t.Logf("%d rows, %d of volumes that wait, %d of volumes that nobody wants", rows, waits, leftovers); rows < 500 || waits < 100 || leftovers < 20 {
		t.Error("the corpus has too few rows to show anything")
	}
}

// TestKubeletPlanProperty: they also agree on random clusters.
func TestKubeletPlanProperty(t *testing.T) {
	cases := corpus(t)
	snapshots := make([]*snapshot.Snapshot, len(cases))
	for i, c := range cases {
		snapshots[i] = testworld.Mounting(c.snapshot(t))
	}
	rapid.Check(t, func(t *rapid.T) {
		s := testcases.Draw(t, snapshots)
		for _, kind := range rapid.SliceOfDistinct(rapid.SampledFrom(snapshot.Kinds()), rapid.ID).Draw(t, "kinds") {
			s = fewer(s, kind, none)
		}
		for _, node := range s.Nodes {
			for _, text := range testworld.Disagreements(s, reconcile.Options{}, facts.NodeName(node)) {
				t.Errorf("node %s: %s", node.Name, text)
			}
		}
	})
}
