package diagnose_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestUndecided: the check waits again after each write of the kubelet. A finding that a write
// has changed has healed; one that no write has changed is undecided.
func TestUndecided(t *testing.T) {
	const code = "VD116"
	before := findingOn(t, "vd116-attached-nowhere", code, "v1.36.3")
	for what, test := range map[string]struct {
		change    func(*corev1.Node)
		drop      snapshot.Kind
		undecided bool
	}{
		"written again as it was":  {change: func(*corev1.Node) {}, undecided: true},
		"the volume is not in use": {change: func(n *corev1.Node) { n.Status.VolumesInUse = nil }},
		"the node is not Ready":    {change: func(n *corev1.Node) { facts.ReadyCondition(n).Status = corev1.ConditionUnknown }},
		"the check could not run":  {change: func(*corev1.Node) {}, drop: snapshot.Leases},
		"it has only just become Ready": {change: func(n *corev1.Node) {
			facts.ReadyCondition(n).LastTransitionTime = facts.ReadyCondition(n).LastHeartbeatTime
		}},
	} {
		t.Run(what, func(t *testing.T) {
			c := caseNamed(t, "vd116-attached-nowhere")
			s := c.snapshot(t)
			for _, node := range s.Nodes {
				if node.Name == string(before.Node) {
					facts.ReadyCondition(node).LastHeartbeatTime = metav1.NewTime(s.TakenAt.Add(-5 * time.Second))
					test.change(node)
				}
			}
			if test.drop != "" {
				s.Gaps = append(s.Gaps, snapshot.Gap{Kind: test.drop, Reason: snapshot.ReasonForbidden})
			}
			if slices.ContainsFunc(c.diagnose(s).Findings, func(f finding.Finding) bool { return f.Code == code && f.Severity.AtLeast(finding.Warning) }) {
				t.Error("it is a warning within a minute of the kubelet's write")
			}
			world := reconcile.NewWorld(s, c.settings)
			if got := diagnose.Undecided(facts.NewView(s, world, world.Reconcile()), before); got != test.undecided {
				t.Errorf("undecided: %v", got)
			}
		})
	}
}
