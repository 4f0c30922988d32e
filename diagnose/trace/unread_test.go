package trace_test

import (
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/testworld"
)

// TestNodeGone: a pod whose node does not exist waits in the same stage for the same actor whether
// or not the node's CSINode is left.
func TestNodeGone(t *testing.T) {
	for _, attaches := range []bool{true, false} {
		for _, left := range []bool{true, false} {
			w := testworld.New().Pending(9).Unattached()
			w.Nodes, w.CSIDrivers[0].Spec.AttachRequired = w.Nodes[1:], &attaches
			if !left {
				w.CSINodes = w.CSINodes[1:]
			}
			want := "listed"
			if !attaches {
				want = "driverRegistered"
			}
			if v := traceOf(w).Verdict; string(v.Stage) != want || v.Actor != "the pod garbage collector" {
				t.Errorf("it attaches: %v, the CSINode is left: %v: %s, stage %s", attaches, left, v.Message, v.Stage)
			}
		}
	}
}
