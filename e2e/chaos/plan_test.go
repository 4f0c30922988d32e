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

// fixed are the rounds that come first. They are the same for every seed, except for the
// place of events that belong to no particular request.
func fixed(quiet map[faultproxy.Class]int, seed uint64) []planned {
	random := rand.New(rand.NewPCG(seed, 1))
	return append(worst(random, quiet), blind(random)...)
}

// plan makes the n rounds of a batch, counted from 0, given how many requests of each class
// an undisturbed run has. The fixed rounds come first; the rest are deaths between any two
// requests, failing lists and storms.
func plan(batch, n int, quiet map[faultproxy.Class]int, seed uint64) []planned {
	list := fixed(quiet, seed)
	list = list[min(batch*n, len(list)):min((batch+1)*n, len(list))]
	random := rand.New(rand.NewPCG(seed+uint64(batch), 2))
	total := 0
	for _, count := range quiet {
		total += count
	}
	stories := []story{
		lostEntry, lostEntry, lostEntry, forgotten, forgotten, nodeOff, refusedDetach, usedElsewhere, otherMachine, nodeLost,
		orphan, orphan, phantom, stuckPod,
	}
	for at := 0; len(list) < n; at++ {
		s := stories[random.IntN(len(stories))]
		var a attack
		switch at % 5 {
		case 0:
			// The places follow each other; the next seed continues where this one ends.
			place := (at + n*(batch+int(seed))) / 5 % (2 * total)
			kill := []faultproxy.Fault{faultproxy.KillBefore, faultproxy.KillAfter}[place%2]
			a = struck(strike{nth: 1 + place/2, fault: kill})
			a.undo = s == lostEntry
		case 1:
			a = drawBlind(random, s)
		default:
			a = drawStorms(random, s, quiet)
		}
		list = append(list, planned{s, a})
	}
	return list
}

// attempts is how often a doctor runs into storms before there is peace.
const attempts = 5

// drawStorm draws a storm that hits up to nearly half of all requests of a run.
func drawStorm(random *rand.Rand) assault { return assault{storm: 0.05 + 0.4*random.Float64()} }

// drawStorms draws storms while the doctor repairs and while it takes that back.
func drawStorms(random *rand.Rand, s story, quiet map[faultproxy.Class]int) attack {
	var a attack
	for range attempts {
		a.runs = append(a.runs, drawStorm(random))
	}
	races := s.races()
	r := races[random.IntN(len(races))]
	during := r.strike(faultproxy.Read, "")
	if class := r.during(); class != "" {
		during.class = class
	} else if r != podMoves {
		during.nth = upTo(random, quiet[faultproxy.Read]/2)
	}
	if random.IntN(2) == 0 && r != nodeReborn { // a volume may be mounted by then
		a.runs[0].strikes = []strike{during}
	}
	if a.undo = random.IntN(2) == 0; a.undo && s.undoes() {
		for range 2 {
			a.undoing = append(a.undoing, drawStorm(random))
		}
	}
	return a
}

// upTo takes one random number whatever n is: the stories must not depend on the number of
// requests of a run.
func upTo(random *rand.Rand, n int) int { return 1 + int(random.Float64()*float64(n)) }

// worst is every fault for every request that is not a read, the death of the doctor before
// and after each, every race between the dry run and the write, and races together with
// faults.
func worst(random *rand.Rand, quiet map[faultproxy.Class]int) []planned {
	var list []planned
	add := func(s story, strikes ...strike) { list = append(list, planned{s, struck(strikes...)}) }
	classes := []faultproxy.Class{faultproxy.DryRun, faultproxy.Write, faultproxy.Review, faultproxy.Event}
	for i, class := range classes {
		for j, kill := range []faultproxy.Fault{faultproxy.KillBefore, faultproxy.KillAfter} {
			for _, undo := range []bool{true, false} {
				add(lostEntry, strike{class: class, nth: 1, fault: kill})
				list[len(list)-1].attack.undo = undo
			}
			if (i+j)%2 == 0 {
				add(refusedDetach, strike{class: class, nth: 1, fault: kill})
			}
		}
		for _, fault := range faultproxy.Faults() {
			if fault != faultproxy.Stale { // that is for reads
				add(lostEntry, strike{class: class, nth: 1, fault: fault})
			}
		}
	}
	for _, class := range []faultproxy.Class{faultproxy.DryRun, faultproxy.Write} {
		for _, fault := range append(faultproxy.Faults(), faultproxy.KillBefore, faultproxy.KillAfter) {
			if fault != faultproxy.Stale {
				add(forgotten, strike{class: class, nth: 1, fault: fault})
			}
		}
	}
	for _, fault := range []faultproxy.Fault{faultproxy.TimeoutAfter, faultproxy.CutBefore, faultproxy.KillBefore, faultproxy.KillAfter} {
		add(nodeOff, strike{class: faultproxy.Write, nth: 1, fault: fault})
		for nth := 1; nth <= 2; nth++ {
			add(orphan, strike{class: faultproxy.Write, nth: nth, fault: fault})
		}
	}
	for _, s := range []story{lostEntry, refusedDetach, forgotten, nodeOff, usedElsewhere, otherMachine, nodeLost} {
		for _, r := range s.races() {
			// nothing is written in these stories, so the race happens during a look
			if s == usedElsewhere || s == otherMachine || s == nodeLost {
				add(s, strike{class: faultproxy.Read, nth: upTo(random, quiet[faultproxy.Read]/2), race: r})
				continue
			}
			if class := r.during(); class != "" {
				add(s, r.strike(class, ""))
				continue
			}
			for _, class := range []faultproxy.Class{faultproxy.DryRun, faultproxy.Write} {
				add(s, r.strike(class, ""))
			}
		}
	}
	for _, r := range []race{podBound, attachedAnew} {
		for _, fault := range []faultproxy.Fault{faultproxy.TimeoutAfter, faultproxy.CutBefore, faultproxy.Conflict, faultproxy.KillAfter} {
			add(forgotten, r.strike(faultproxy.Write, fault))
		}
	}
	for _, s := range []story{forgotten, nodeOff} { // before the last look
		add(s, nodeReturns.strike(faultproxy.Review, ""))
	}
	// A write without an answer, and meanwhile somebody else's write.
	for _, r := range []race{heartbeat, attach, secondDoctor} {
		for _, fault := range []faultproxy.Fault{faultproxy.TimeoutBefore, faultproxy.TimeoutAfter, faultproxy.CutBefore, faultproxy.CutAfter, faultproxy.Conflict, faultproxy.Internal} {
			add(lostEntry, r.strike(faultproxy.Write, fault))
		}
	}
	// The doctor is killed after somebody else has interfered.
	for _, r := range []race{heartbeat, attach, podGoes, nodeReturns, secondDoctor} {
		add(lostEntry, r.strike(faultproxy.Write, faultproxy.KillAfter))
	}
	return list
}

// TestShortPlan: the rounds of every run include every story, every fault and a death of the
// doctor before and after a write.
func TestShortPlan(t *testing.T) {
	missing := map[any]bool{faultproxy.KillBefore: true, faultproxy.KillAfter: true}
	for _, fault := range faultproxy.Faults() {
		missing[fault] = fault != faultproxy.Stale // that one is for storms
	}
	for _, p := range fixed(quietGuess, 1) {
		missing[p.story] = true
	}
	for _, p := range chosen(plan(0, *rounds, quietGuess, 1)) {
		delete(missing, p.story)
		for _, s := range p.attack.strikes() {
			delete(missing, s.fault)
		}
	}
	for what, is := range missing {
		if is {
			t.Errorf("no round has %v", what)
		}
	}
}

// TestPlan: the fixed rounds include each fault of each request that is not a read, those of
// make chaos each place for the doctor to die, and the stories do not depend on the number of
// requests of a run.
func TestPlan(t *testing.T) {
	quiet := map[faultproxy.Class]int{faultproxy.Read: 60, faultproxy.Review: 1, faultproxy.DryRun: 1, faultproxy.Write: 1, faultproxy.Event: 1}
	list := fixed(quiet, 1)
	hit := func(class faultproxy.Class, nth int, fault faultproxy.Fault) bool {
		for _, p := range list {
			if slices.ContainsFunc(p.attack.strikes(), func(s strike) bool { return s.class == class && s.nth == nth && s.fault == fault }) {
				return true
			}
		}
		return false
	}
	for class, n := range quiet {
		for _, fault := range append(faultproxy.Faults(), faultproxy.KillBefore, faultproxy.KillAfter) {
			if class != faultproxy.Read && fault != faultproxy.Stale && !hit(class, n, fault) {
				t.Errorf("no %s for the %s", fault, class)
			}
		}
	}
	deletions, lists := map[faultproxy.Fault]bool{}, map[string]bool{}
	for _, p := range list {
		for _, s := range p.attack.strikes() {
			if p.story == forgotten && s.class == faultproxy.Write {
				deletions[s.fault] = true
			}
			if s.after == 1 && s.fault != "" {
				lists[s.resource] = true
			}
		}
	}
	for _, fault := range append(faultproxy.Faults(), faultproxy.KillBefore, faultproxy.KillAfter) {
		if fault != faultproxy.Stale && !deletions[fault] {
			t.Errorf("no %s for a deletion", fault)
		}
	}
	for _, kind := range kinds {
		if !lists[kind] {
			t.Errorf("the list of %s never fails after a write", kind)
		}
	}
	t.Logf("%d rounds are fixed", len(list))
	for batch := range 12 {
		now, guessed := plan(batch, *rounds, quiet, 1), plan(batch, *rounds, quietGuess, 1)
		for i, p := range now {
			if p.story != guessed[i].story {
				t.Errorf("round %d of batch %d is %s, or %s", i, batch, p.story, guessed[i].story)
			}
		}
		if len(now) != *rounds {
			t.Errorf("batch %d has %d rounds", batch, len(now))
		}
		list = append(list, now...)
	}
	for nth := 1; nth <= 64; nth++ {
		for _, fault := range []faultproxy.Fault{faultproxy.KillBefore, faultproxy.KillAfter} {
			if !hit("", nth, fault) {
				t.Errorf("no %s %d", fault, nth)
			}
		}
	}
}
