package cmd

import (
	"errors"
	"strings"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/repair/apply"
)

// TestNarrate: a repair is named with its first step and with its result; what is told of the next
// repair is never below the name of the one before.
func TestNarrate(t *testing.T) {
	var b strings.Builder
	tell := narrate(&b)
	for _, e := range []apply.Event{
		{Summary: "one", Stage: apply.Looking},
		{Summary: "one", Stage: apply.Writing},
		{Summary: "one", Stage: apply.Announcing, Err: errors.New("denied")},
		{Summary: "one", Stage: apply.Verifying},
		{Summary: "one", Stage: apply.Done, Result: &apply.Result{Outcome: apply.Repaired}},
		{Summary: "two", Stage: apply.Looking},
		{Summary: "three", Stage: apply.Looking},
		{Summary: "three", Stage: apply.Done, Result: &apply.Result{Outcome: apply.Skipped}},
		{Summary: "three", Stage: apply.Looking},
	} {
		tell(e)
	}
	const want = `looking: one
  writing
no event was written about it: denied
  written; watching that it stays
one: Repaired
looking: two
looking: three
three: not done
looking: three
`
	if got := b.String(); got != want {
		t.Error(got)
	}
}
