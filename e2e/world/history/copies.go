package history

import (
	"slices"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/world/claims"
)

// goesOn is how long a copy of a world goes on after its question: the back-offs of the
// attacher and of the controller, and ten minutes in which what was done has to last.
const goesOn = 20 * time.Minute

// curable are the deeds that break something, and that can be undone.
var curable = []string{"break", "stop the kubelet", "switch off", "delete the node", "keep the containers", "run a second pod", "stop the manager", "stop the attacher", "remake the claim", "delete the claim", "take the annotation", "edit the claimRef", "edit the access modes"}

// nothing cures no step.
const nothing = -1

// upTo is the history until a moment, and on from there: what is wrong then does not end,
// but for the step of that number, which ends then.
func (h History) upTo(at time.Duration, cured int) History {
	copied := History{Size: h.Size, For: at + goesOn}
	for i, s := range h.Steps {
		if s.At > at {
			continue
		}
		if s.isWrong(at) {
			s.For = 0
			if i == cured {
				s.For = at - s.At + time.Second
			}
		}
		copied.Steps = append(copied.Steps, s)
	}
	return copied
}

// isWrong reports whether the step breaks something at that moment.
func (s Step) isWrong(at time.Duration) bool {
	return slices.Contains(curable, s.Do) && s.At <= at && (s.For == 0 || s.At+s.For > at)
}

// kind names the step as the judges of causes know it.
func (s Step) kind() string {
	if s.Do == "break" {
		return kindOf(s.Fault)
	}
	return s.Do
}

// askCauses plays copies of the history for each question about a cause or an actor: in each of them
// one of the things is cured that are wrong, and in one of them none.
func (h History) askCauses(t *testing.T, r *claims.Record, tally *claims.Tally) {
	for _, q := range slices.Concat(claims.Causes(r), claims.Parts(r)) {
		serves := func(cured int) bool {
			played, err := h.upTo(q.At, cured).Play(t)
			if err != nil {
				t.Errorf("copy of %s at %s: %v", q.Code, clock(q.At), err)
				return false
			}
			return !played.Record.Serves(q.Claim).IsZero()
		}
		var wrong, freed []string
		alone := serves(nothing)
		for i, s := range h.Steps {
			if alone || !s.isWrong(q.At) {
				continue
			}
			wrong = append(wrong, s.kind())
			if serves(i) {
				freed = append(freed, s.kind())
			}
		}
		t.Logf("%s %s %s of %s: wrong %v, freed by the cure of %v, alone %t", clock(q.At), q.Code, q.Message, q.Claim, wrong, freed, alone)
		before := len(tally.False)
		tally.CausedBy(q, wrong, freed, alone)
		for _, f := range tally.False[before:] {
			t.Error(f)
		}
	}
}
