package diagnose_test

import (
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestStuckAttacherIsNamed: where the attacher ran on a lost node and its StatefulSet makes no other,
// VD604 and VD401 name its pod and what brings it back. A pod that is made again elsewhere is not
// what keeps the attacher away.
func TestStuckAttacherIsNamed(t *testing.T) {
	const stuck = "its pod kube-system/ebs-csi-controller-0 is stuck Terminating on lost node n2"
	for name, code := range map[string]string{"vd604-attacher-on-lost-node": "VD604", "vd401-attacher-on-lost-node": "VD401"} {
		for _, kind := range []string{"StatefulSet", "ReplicaSet"} {
			c := caseNamed(t, name)
			s := c.snapshot(t)
			for _, pod := range s.Pods {
				for i := range pod.OwnerReferences {
					pod.OwnerReferences[i].Kind = kind
				}
			}
			r := diagnose.Diagnose(snapshot.New(s.TakenAt, s.Source, s.Objects, s.Gaps), diagnose.Options{Reconcile: c.settings})
			told := false
			for _, f := range r.Findings {
				if string(f.Code) == code {
					told = true
					text := f.Text() + f.Cause + f.SelfHeals.Because
					if strings.Contains(text, stuck) != (kind == "StatefulSet") || strings.Contains(f.Advice, "bring node n2 back") != (kind == "StatefulSet") {
						t.Errorf("%s of a %s: %s; %s", name, kind, text, f.Advice)
					}
				}
			}
			if !told {
				t.Errorf("%s of a %s: no %s", name, kind, code)
			}
		}
	}
}
