package cmd

import (
	"strings"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestWhoMayNotListIsNamed: of a target that was not found because its kind may not be listed, the
// user and the role are named; where the file lacks the kind, no role helps.
func TestWhoMayNotListIsNamed(t *testing.T) {
	wanted, err := parseTarget("pod/web-0", "shop")
	if err != nil {
		t.Fatal(err)
	}
	for reason, named := range map[string]bool{snapshot.ReasonForbidden: true, snapshot.ReasonNotInFile: false} {
		s := snapshot.New(time.Now(), snapshot.Source{}, snapshot.Objects{}, []snapshot.Gap{{Kind: snapshot.Pods, Reason: reason, Detail: `pods is forbidden: User "jane" cannot list resource "pods" in API group "" at the cluster scope`}})
		says := wanted.mustExist(s).Error()
		if strings.Contains(says, "jane may not list pods; ask for ClusterRole volume-doctor-reader") != named || !strings.Contains(says, "not all pods could be read") {
			t.Errorf("%s: %s", reason, says)
		}
	}
	s := snapshot.New(time.Now(), snapshot.Source{}, snapshot.Objects{}, []snapshot.Gap{
		{Kind: snapshot.Pods, Reason: snapshot.ReasonNotInFile},
		{Kind: snapshot.Nodes, Reason: snapshot.ReasonForbidden, Detail: `nodes is forbidden: User "jane" cannot list resource "nodes" in API group "" at the cluster scope`},
	})
	if says := wanted.mustExist(s).Error(); strings.Contains(says, "jane") {
		t.Errorf("of another kind: %s", says)
	}
}
