package chaos_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/faultproxy"
)

// planned is the story and the attack of a round.
type planned struct {
	story  story
	attack attack
}

// plan makes n rounds, given how many requests of each class a run has in which
// nothing goes wrong. In the first batch what is worst comes first and is always
// the same; the rest is deaths between any two requests, and storms.
func plan(n int, quiet map[faultproxy.Class]int, seed uint64, first bool) []planned {
	random := rand.New(rand.NewPCG(seed, 1))
	var list []planned
	if first {
		list = worst(random, quiet)
	}
	total := 0
	for _, count := range quiet {
		total += count
	}
	stories := []story{lostEntry, lostEntry, lostEntry, forgotten, forgotten, nodeOff, refusedDetach, usedElsewhere, otherMachine, nodeLost}
	for at := 0; len(list) < n; at++ {
		s := stories[random.IntN(len(stories))]
		var a attack
		switch {
		case at%3 == 0:
			// One place after the other; the next seed goes on where this one ends.
			place := (at + n*int(seed)) / 3 % (2 * total)
			kill := []faultproxy.Fault{faultproxy.KillBefore, faultproxy.KillAfter}[place%2]
			a = attack{strikes: []strike{{nth: 1 + place/2, fault: kill}}, undo: s == lostEntry}
		case at%3 == 1 && first:
			fault := faultproxy.Faults()[random.IntN(len(faultproxy.Faults()))]
			a.strikes = []strike{{class: faultproxy.Read, nth: upTo(random, quiet[faultproxy.Read]), fault: fault}}
		default:
			for range attempts {
				a.storms = append(a.storms, 0.05+0.3*random.Float64())
			}
			races := s.races()
			r := races[random.IntN(len(races))]
			during := strike{class: faultproxy.Read, nth: upTo(random, quiet[faultproxy.Read]/2), race: r}
			if class := r.during(); class != "" {
				during.class, during.nth = class, 1
			}
			if random.IntN(2) == 0 && r != nodeReborn { // a volume may be mounted by then
				a.strikes = []strike{during}
			}
		}
		list = append(list, planned{s, a})
	}
	return list[:n]
}

// attempts are how often a doctor runs into storms before peace comes.
const attempts = 4

// upTo takes one random number whatever n is: the stories must not hang on how
// many requests a run has.
func upTo(random *rand.Rand, n int) int { return 1 + int(random.Float64()*float64(n)) }

// worst is every fault for every request that is no read, the death of the
// doctor before and after each, every race between the dry run and the write,
// and races and faults at once.
func worst(random *rand.Rand, quiet map[faultproxy.Class]int) []planned {
	var list []planned
	add := func(s story, a attack) { list = append(list, planned{s, a}) }
	classes := []faultproxy.Class{faultproxy.DryRun, faultproxy.Write, faultproxy.Review, faultproxy.Event}
	for i, class := range classes {
		for j, kill := range []faultproxy.Fault{faultproxy.KillBefore, faultproxy.KillAfter} {
			for _, undo := range []bool{true, false} {
				add(lostEntry, attack{strikes: []strike{{class: class, nth: 1, fault: kill}}, undo: undo})
			}
			if (i+j)%2 == 0 {
				add(refusedDetach, attack{strikes: []strike{{class: class, nth: 1, fault: kill}}})
			}
		}
		for _, fault := range faultproxy.Faults() {
			if fault != faultproxy.Stale { // that is for reads
				add(lostEntry, attack{strikes: []strike{{class: class, nth: 1, fault: fault}}})
			}
		}
	}
	for _, class := range []faultproxy.Class{faultproxy.DryRun, faultproxy.Write} {
		for _, fault := range append(faultproxy.Faults(), faultproxy.KillBefore, faultproxy.KillAfter) {
			if fault != faultproxy.Stale {
				add(forgotten, attack{strikes: []strike{{class: class, nth: 1, fault: fault}}})
			}
		}
	}
	for _, fault := range []faultproxy.Fault{faultproxy.TimeoutAfter, faultproxy.CutBefore, faultproxy.KillBefore, faultproxy.KillAfter} {
		add(nodeOff, attack{strikes: []strike{{class: faultproxy.Write, nth: 1, fault: fault}}})
	}
	for _, s := range []story{lostEntry, refusedDetach, forgotten, nodeOff, usedElsewhere, otherMachine, nodeLost} {
		for _, r := range s.races() {
			if s == usedElsewhere || s == otherMachine || s == nodeLost { // nothing is written there, so it happens during a look
				add(s, attack{strikes: []strike{{class: faultproxy.Read, nth: upTo(random, quiet[faultproxy.Read]/2), race: r}}})
				continue
			}
			if class := r.during(); class != "" {
				add(s, attack{strikes: []strike{{class: class, nth: 1, race: r}}})
				continue
			}
			for _, class := range []faultproxy.Class{faultproxy.DryRun, faultproxy.Write} {
				add(s, attack{strikes: []strike{{class: class, nth: 1, race: r}}})
			}
		}
	}
	for _, r := range []race{podBound, attachedAnew} {
		for _, fault := range []faultproxy.Fault{faultproxy.TimeoutAfter, faultproxy.CutBefore, faultproxy.Conflict, faultproxy.KillAfter} {
			add(forgotten, attack{strikes: []strike{{class: faultproxy.Write, nth: 1, race: r, fault: fault}}})
		}
	}
	for _, s := range []story{forgotten, nodeOff} { // before the last look
		add(s, attack{strikes: []strike{{class: faultproxy.Review, nth: 1, race: nodeReturns}}})
	}
	// A write without an answer, and meanwhile somebody else's.
	for _, r := range []race{heartbeat, attach, secondDoctor} {
		for _, fault := range []faultproxy.Fault{faultproxy.TimeoutBefore, faultproxy.TimeoutAfter, faultproxy.CutBefore, faultproxy.CutAfter, faultproxy.Conflict, faultproxy.Internal} {
			add(lostEntry, attack{strikes: []strike{{class: faultproxy.Write, nth: 1, race: r, fault: fault}}})
		}
	}
	// The doctor is killed, and before that somebody else was at it.
	for _, r := range []race{heartbeat, attach, podGoes, nodeReturns, secondDoctor} {
		add(lostEntry, attack{strikes: []strike{{class: faultproxy.Write, nth: 1, race: r, fault: faultproxy.KillAfter}}})
	}
	return list
}

// TestPlan: the rounds of make test leave out no fault of any request but reads,
// those of make chaos no place for the doctor to die, and the stories do not
// hang on how many requests a run has.
func TestPlan(t *testing.T) {
	quiet := map[faultproxy.Class]int{faultproxy.Read: 60, faultproxy.Review: 1, faultproxy.DryRun: 1, faultproxy.Write: 1, faultproxy.Event: 1}
	planned := plan(200, quiet, 1, true)
	struck := func(class faultproxy.Class, nth int, fault faultproxy.Fault) bool {
		for _, p := range planned {
			if slices.ContainsFunc(p.attack.strikes, func(s strike) bool { return s.class == class && s.nth == nth && s.fault == fault }) {
				return true
			}
		}
		return false
	}
	for class, n := range quiet {
		for _, fault := range append(faultproxy.Faults(), faultproxy.KillBefore, faultproxy.KillAfter) {
			if class != faultproxy.Read && fault != faultproxy.Stale && !struck(class, n, fault) {
				t.Errorf("no %s for the %s", fault, class)
			}
		}
	}
	deletions := map[faultproxy.Fault]bool{}
	for _, p := range planned {
		for _, s := range p.attack.strikes {
			if p.story == forgotten && s.class == faultproxy.Write {
				deletions[s.fault] = true
			}
		}
	}
	for _, fault := range append(faultproxy.Faults(), faultproxy.KillBefore, faultproxy.KillAfter) {
		if fault != faultproxy.Stale && !deletions[fault] {
			t.Errorf("no %s for a deletion", fault)
		}
	}
	for i, p := range plan(200, quietGuess, 1, true) {
		if p.story != planned[i].story {
			t.Errorf("round %d is %s, or %s", i, p.story, planned[i].story)
		}
	}
	for seed := range uint64(3) {
		planned = append(planned, plan(300, quiet, 2+seed, false)...)
	}
	for nth := 1; nth <= 64; nth++ {
		for _, fault := range []faultproxy.Fault{faultproxy.KillBefore, faultproxy.KillAfter} {
			if !struck("", nth, fault) {
				t.Errorf("no %s %d", fault, nth)
			}
		}
	}
}
