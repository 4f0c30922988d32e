// Package facts decides what is true of the pods, nodes, attachments, drivers and claims of a
// snapshot: each fact in one place, for checks, traces and repairs.
package facts

import (
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// View answers questions about a snapshot and the worlds rebuilt from it. Its methods cache
// their answers and may be called concurrently.
type View struct {
	Snapshot *snapshot.Snapshot
	World    *reconcile.World
	Plan     *reconcile.Plan

	memory *sync.Map // see Kept

	// later is by how much longer everything counts as having lasted: see Later.
	later time.Duration
	asked sync.Mutex
	left  sets.Set[time.Duration] // see Left
	noted sets.Set[any]           // the answers whose left is included in left
}

// NewView returns a view of the snapshot and its worlds.
func NewView(s *snapshot.Snapshot, world *reconcile.World, plan *reconcile.Plan) *View {
	return &View{Snapshot: s, World: world, Plan: plan, memory: &sync.Map{}}
}

// Apart returns a view that shares the cached answers with v but has its own Left and Ends,
// which cover only what is asked through it.
func (v *View) Apart() *View { return v.apart(v.later) }

func (v *View) apart(later time.Duration) *View {
	return &View{Snapshot: v.Snapshot, World: v.World, Plan: v.Plan, memory: v.memory, later: later}
}

// Age is the time from t until the snapshot was taken.
func (v *View) Age(t metav1.Time) time.Duration { return v.Snapshot.TakenAt.Sub(t.Time) }

// Later returns the same view in which everything counts as having lasted longer by d. It
// serves the search for explanations of a pod that is already stuck.
func (v *View) Later(d time.Duration) *View { return v.apart(d) }

// Lasted reports whether something that began at since has lasted for the granted time. It is for
// the waits of a finding, not for the age of a sign of life.
func (v *View) Lasted(since metav1.Time, granted time.Duration) bool {
	left := granted - v.Age(since)
	if left > 0 {
		v.note(nil, sets.New(left))
	}
	return left <= v.later
}

// note adds to left. An answer is noted once, however often it is asked for.
func (v *View) note(answer any, left sets.Set[time.Duration]) {
	if len(left) == 0 {
		return
	}
	v.asked.Lock()
	defer v.asked.Unlock()
	if v.left == nil {
		v.left, v.noted = sets.Set[time.Duration]{}, sets.Set[any]{}
	}
	if !v.noted.Has(answer) {
		maps.Copy(v.left, left)
	}
	if answer != nil {
		v.noted.Insert(answer)
	}
}

// Left are the remaining times of everything the view was asked about that has not lasted long
// enough, the shortest first.
func (v *View) Left() []time.Duration {
	v.asked.Lock()
	defer v.asked.Unlock()
	return slices.Sorted(maps.Keys(v.left))
}

// Ends reports whether anything that the view was asked about, and that has not lasted long
// enough, will have after d. If not, a view of Later(d) gives the same answers.
func (v *View) Ends(d time.Duration) bool {
	v.asked.Lock()
	defer v.asked.Unlock()
	return anyEnds(v.left, d)
}

func anyEnds(left sets.Set[time.Duration], after time.Duration) bool {
	for l := range left {
		if l <= after {
			return true
		}
	}
	return false
}
