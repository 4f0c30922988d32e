// Package facts decides what is true of the pods, nodes, attachments, drivers and
// claims of a snapshot: each fact in one place, for checks, traces and repairs.
package facts

import (
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// View is what is true of a snapshot and of the worlds rebuilt from it. Its
// methods remember what they have found out, and may be called side by side.
type View struct {
	Snapshot *snapshot.Snapshot
	World    *reconcile.World
	Plan     *reconcile.Plan

	memory *remembered
	others *sync.Map // see Once

	// later is how much longer everything has lasted: see Later.
	later time.Duration
	asked sync.Mutex
	left  sets.Set[time.Duration] // see Left
	noted sets.Set[any]           // answers whose part of left is in it
}

// NewView is a view of the snapshot and its worlds.
func NewView(s *snapshot.Snapshot, world *reconcile.World, plan *reconcile.Plan) *View {
	return &View{Snapshot: s, World: world, Plan: plan, memory: &remembered{}, others: &sync.Map{}}
}

// Apart is the same view for another who asks: what is found out about either serves
// both, but Left and Ends are of what this one is asked.
func (v *View) Apart() *View { return v.apart(v.later) }

func (v *View) apart(later time.Duration) *View {
	return &View{Snapshot: v.Snapshot, World: v.World, Plan: v.Plan, memory: v.memory, others: v.others, later: later}
}

// Age is the time from t to the moment of the snapshot.
func (v *View) Age(t metav1.Time) time.Duration { return v.Snapshot.TakenAt.Sub(t.Time) }

// Later is the same view for the search after what may explain a pod that is stuck
// already: what has lasted until now counts as having lasted longer by d.
func (v *View) Later(d time.Duration) *View { return v.apart(d) }

// Lasted reports whether what began at since has lasted as long as it is granted. Only
// what a finding says of a wait is granted so: how old a sign of life may be is
// another question.
func (v *View) Lasted(since metav1.Time, granted time.Duration) bool {
	left := granted - v.Age(since)
	if left > 0 {
		v.note(nil, sets.New(left))
	}
	return left <= v.later
}

// note adds to left. An answer is asked for again and again, and noted once.
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

// Left are the times after which something counts as having lasted long enough,
// the shortest first, of what the view was asked about.
func (v *View) Left() []time.Duration {
	v.asked.Lock()
	defer v.asked.Unlock()
	return slices.Sorted(maps.Keys(v.left))
}

// Ends reports whether something that the view was asked about, and that had not lasted
// long enough, will have after d. Where nothing will, whoever asks a view of Later gets
// the same answers.
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

// Once is what find finds out about the view. It is asked once for each type: what
// another package finds out about a view has a type of its own.
func Once[V any](v *View, find func(*View) V) V {
	one, _ := v.others.LoadOrStore(reflect.TypeFor[V](), &fact[V]{})
	return one.(*fact[V]).get(v, find)
}
