package histories

import (
	"slices"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// TestAhead has a controller that assumes no mounts live through random histories, and checks
// that the model with MountsNotAssumed foretells it and the one without does not. The other
// two behaviours that no release has are about objects of which the controller has not heard,
// and no history compares those.
func TestAhead(t *testing.T) {
	t.Parallel()
	oracle := startPatched(t, conformance.Newest, "141385")
	total, without := row{Release: conformance.Newest, Counts: map[string]int{}}, 0
	first := *seed + 299 // among the next 60 are four that distinguish a controller that assumes no mounts
	for s := first; s < first+uint64(max(60, *count/2)); s++ {
		request := Generate(s)
		story := live(t, oracle, request)
		result := Compare(conformance.Newest, request, story, AskAhead(reconcile.MountsNotAssumed))
		total.add(result)
		if len(result.Differences) > 0 {
			t.Errorf("seed %d: %s", s, result.Differences[0])
		}
		if len(Compare(conformance.Newest, request, story, AskModel).Differences) > 0 {
			without++
		}
	}
	if total.Counts["deeds compared"] == 0 || without == 0 {
		t.Error("nothing tells the controller from one that assumes mounts")
	}
	t.Logf("%d histories, %d deeds compared, %d differ; %d differ without the behaviour", total.Histories, total.Counts["deeds compared"], total.Differing, without)
	if slices.ContainsFunc(reconcile.Ahead(), func(c reconcile.Change) bool { return conformance.Patches[c.Source[1:]] == "" }) {
		t.Error("a behaviour has no patch")
	}
}
