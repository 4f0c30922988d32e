// Package facts decides what is true of the pods, nodes, attachments, drivers and
// claims of a snapshot: each fact in one place, for checks, traces and repairs.
package facts

import (
	"reflect"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// View is what is true of a snapshot and of the worlds rebuilt from it. Its
// methods remember what they have found out, and may be called side by side.
type View struct {
	Snapshot *snapshot.Snapshot
	World    *reconcile.World
	Plan     *reconcile.Plan

	memory remembered
	others sync.Map // see Once

	// later is how much longer everything has lasted: see Later.
	later   time.Duration
	granted sync.Mutex
	left    []time.Duration // see Left
}

// NewView is a view of the snapshot and its worlds.
func NewView(s *snapshot.Snapshot, world *reconcile.World, plan *reconcile.Plan) *View {
	return &View{Snapshot: s, World: world, Plan: plan}
}

// Age is the time from t to the moment of the snapshot.
func (v *View) Age(t metav1.Time) time.Duration { return v.Snapshot.TakenAt.Sub(t.Time) }

// Later is the same view for the search after what may explain a pod that is stuck
// already: what has lasted until now counts as having lasted longer by d.
func (v *View) Later(d time.Duration) *View {
	return &View{Snapshot: v.Snapshot, World: v.World, Plan: v.Plan, later: d}
}

// Lasted says whether what began at since has lasted as long as it is granted. Only
// what a finding says of a wait is granted so: how old a sign of life may be is
// another question.
func (v *View) Lasted(since metav1.Time, granted time.Duration) bool {
	left := granted - v.Age(since)
	if left > 0 && v.later > 0 {
		v.granted.Lock()
		defer v.granted.Unlock()
		v.left = append(v.left, left)
	}
	return left <= v.later
}

// Left are the times after which something counts as having lasted long enough,
// the shortest first, of what a view made by Later was asked about.
func (v *View) Left() []time.Duration {
	v.granted.Lock()
	defer v.granted.Unlock()
	slices.Sort(v.left)
	return slices.Compact(v.left)
}

// Once is what find finds out about the view. It is asked once for each type: what
// another package finds out about a view has a type of its own.
func Once[V any](v *View, find func(*View) V) V {
	one, _ := v.others.LoadOrStore(reflect.TypeFor[V](), &fact[V]{})
	return one.(*fact[V]).get(func() V { return find(v) })
}
