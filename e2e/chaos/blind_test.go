package chaos_test

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/faultproxy"
)

// What a doctor does that has written and cannot see the result.

// kinds are the kinds that every look reads.
var kinds = []string{
	"nodes", "pods", "volumeattachments", "persistentvolumes", "persistentvolumeclaims", "csinodes", "csidrivers", "leases", "events",
}

// unreadable are the faults with which a list can fail.
var unreadable = []faultproxy.Fault{
	faultproxy.Forbidden, faultproxy.Internal, faultproxy.TimeoutBefore, faultproxy.CutBefore, faultproxy.CutBody, faultproxy.Truncated,
}

// undoes reports whether undo has something to take back in such a world.
func (s story) undoes() bool {
	return slices.Contains([]story{lostEntry, refusedDetach, orphan, phantom, stuckPod}, s)
}

// undoReads are the kinds that undo must have read to report that nothing is left to take
// back. An annotation is only on its object.
func (s story) undoReads() []string {
	if s == refusedDetach {
		return []string{"volumeattachments"}
	}
	return []string{"nodes", "pods", "volumeattachments", "persistentvolumes", "persistentvolumeclaims"}
}

// writers are the stories in which the doctor writes.
var writers = []story{lostEntry, refusedDetach, forgotten, nodeOff, orphan, phantom, stuckPod}

// several is how often a list fails that fails several times: more often than a client
// retries by itself.
const several = 4

// lasting is how often a list fails in the story where it is to fail that many times. Between
// its two writes a doctor would wait for 6 min, which is too long for most rounds.
func (s story) lasting(times int) int {
	if s == orphan {
		return min(times, 3*several)
	}
	return times
}

// blind is each story with each kind of list failing after the write, lost answers and lost
// writes together with a failing list, an API server that refuses everything for a while,
// undo with failing lists and with each fault of its write, and two doctors side by side.
func blind(random *rand.Rand) []planned {
	var list []planned
	add := func(s story, a attack) { list = append(list, planned{s, a}) }
	fault := func() faultproxy.Fault { return unreadable[random.IntN(len(unreadable))] }
	for i, s := range []story{lostEntry, forgotten, orphan} {
		for j, kind := range kinds {
			add(s, struck(failing(kind, 1, fault(), s.lasting([]int{1, several, always}[(i+j)%3]))))
		}
	}
	for _, s := range []story{refusedDetach, nodeOff, phantom, stuckPod} {
		for _, kind := range kinds[:3] {
			add(s, struck(failing(kind, 1, fault(), always)))
		}
	}
	for _, s := range writers {
		for i, kind := range kinds[:3] {
			lost := []faultproxy.Fault{faultproxy.TimeoutAfter, faultproxy.CutAfter, faultproxy.CutBody}[i]
			add(s, struck(strike{class: faultproxy.Write, nth: 1, fault: lost}, failing(kind, 1, faultproxy.Internal, several)))
		}
		before := []faultproxy.Fault{faultproxy.TimeoutBefore, faultproxy.CutBefore}[random.IntN(2)]
		add(s, struck(strike{class: faultproxy.Write, nth: 1, fault: before}, failing("nodes", 1, fault(), several), failing("volumeattachments", 1, fault(), several)))
		add(s, struck(strike{after: 1, nth: 1, lasts: starting, fault: faultproxy.Forbidden}))
	}
	// The second of two writes.
	for _, lost := range []faultproxy.Fault{faultproxy.TimeoutBefore, faultproxy.CutBefore, faultproxy.TimeoutAfter} {
		add(orphan, struck(strike{class: faultproxy.Write, nth: 2, fault: lost}, failing("volumeattachments", 2, fault(), several)))
	}
	add(orphan, between(faultproxy.Internal, "pods", "nodes"))
	add(orphan, between(faultproxy.Forbidden, "pods"))
	add(orphan, between(faultproxy.TimeoutBefore, "nodes", "persistentvolumeclaims"))
	for _, s := range []story{lostEntry, refusedDetach, phantom, stuckPod} {
		for _, kind := range kinds[:3] {
			add(s, undone(failing(kind, 0, fault(), always), failing(kind, 1, fault(), several)))
		}
	}
	for _, f := range append(faultproxy.Faults(), faultproxy.KillBefore, faultproxy.KillAfter) {
		if f != faultproxy.Stale {
			add([]story{phantom, stuckPod}[random.IntN(2)], undone(strike{class: faultproxy.Write, nth: 1, fault: f}))
		}
	}
	killed := struck(strike{after: 1, nth: 3, fault: faultproxy.KillBefore})
	killed.undoing = undone(failing("volumeattachments", 0, faultproxy.Internal, always), failing("pods", 0, faultproxy.Internal, always)).undoing
	add(orphan, killed)
	for _, s := range []story{lostEntry, phantom, stuckPod} {
		add(s, attack{twins: true})
	}
	for _, s := range []story{phantom, stuckPod} {
		add(s, elsewhere())
	}
	for _, s := range []story{lostEntry, forgotten, phantom} {
		add(s, approving(asSaved, strike{class: faultproxy.Write, nth: 1, fault: faultproxy.TimeoutAfter}))
		add(s, approving(edited))
	}
	add(lostEntry, approving(asSaved, attach.strike(faultproxy.DryRun, "")))
	add(forgotten, approving(asSaved, podComes.strike(faultproxy.Review, "")))
	add(stuckPod, taken())
	return list
}

// starting is how long an API server refuses everybody after its start.
const starting = 8 * time.Second

// failing makes the lists of a kind fail after so many writes.
func failing(kind string, writes int, fault faultproxy.Fault, times int) strike {
	return strike{class: faultproxy.Read, resource: kind, after: writes, nth: 1, times: times, fault: fault}
}

// between moves the pod to the node between the two writes, and makes each of the kinds that
// would show it fail once.
func between(fault faultproxy.Fault, kinds ...string) attack {
	strikes := []strike{podMoves.strike("", "")}
	for _, kind := range kinds {
		strikes = append(strikes, failing(kind, 1, fault, 1))
	}
	return struck(strikes...)
}

// undone is an attack that leaves the repair alone and strikes its undo: once for each strike.
func undone(strikes ...strike) attack {
	a := struck()
	a.undo = true
	for _, s := range strikes {
		a.undoing = append(a.undoing, assault{strikes: []strike{s}})
	}
	return a
}

// elsewhere runs undo with another address of the API server than the journal's.
func elsewhere() attack {
	a := undone()
	a.renamed = true
	return a
}

// taken runs undo after an admin has taken over the written object.
func taken() attack {
	a := undone()
	a.takenOver = true
	return a
}

// drawBlind draws a list that fails after a write, in many ways, and at times a fault of the
// write itself.
func drawBlind(random *rand.Rand, s story) attack {
	switch kind := random.IntN(8); {
	case kind < 2: // nothing can be read for a while
		fault := unreadable[random.IntN(len(unreadable))]
		a := struck(strike{class: faultproxy.Read, after: 1, nth: 1, lasts: time.Duration(5+random.IntN(25)) * time.Second, fault: fault})
		a.undo = s.undoes()
		return a
	case kind == 2:
		return attack{twins: true, runs: []assault{drawStorm(random), drawStorm(random)}}
	case kind == 3 && s.undoes():
		a := elsewhere()
		a.runs = []assault{drawStorm(random)}
		return a
	}
	fault := unreadable[random.IntN(len(unreadable))]
	fails := failing(kinds[random.IntN(len(kinds))], 1, fault, s.lasting([]int{1, 2, several, 3 * several, always}[random.IntN(5)]))
	fails.nth = 1 + random.IntN(3)
	a := struck(fails)
	if random.IntN(2) == 0 {
		lost := []faultproxy.Fault{faultproxy.TimeoutBefore, faultproxy.TimeoutAfter, faultproxy.CutBefore, faultproxy.CutAfter, faultproxy.CutBody}
		a.runs[0].strikes = append(a.runs[0].strikes, strike{class: faultproxy.Write, nth: 1 + random.IntN(2), fault: lost[random.IntN(len(lost))]})
	}
	if a.undo = s.undoes(); a.undo {
		again := fails
		again.after = random.IntN(2)
		a.undoing = []assault{{strikes: []strike{again}}}
	}
	return a
}
