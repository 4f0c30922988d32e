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

// TestNarrateOnTerminal: no line is wider than the terminal, and no name is broken.
func TestNarrateOnTerminal(t *testing.T) {
	t.Setenv("COLUMNS", "80")
	var b strings.Builder
	narrate(&b)(apply.Event{Stage: apply.Looking, Summary: "add volume pvc-0b1c8a4e-5f0e-4a0e-9d55-0d5a6c7e8f90 to volumesAttached of node ip-10-0-92-212.eu-central-1.compute.internal"})
	const want = `looking: add volume pvc-0b1c8a4e-5f0e-4a0e-9d55-0d5a6c7e8f90 to
  volumesAttached of node ip-10-0-92-212.eu-central-1.compute.internal
`
	if got := b.String(); got != want {
		t.Error(got)
	}
}
