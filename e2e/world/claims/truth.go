// Package claims judges what the tool said of a world by what the world then did.
package claims

import (
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Truth is what became of the pods of a world, and of its nodes.
type Truth struct {
	mu    sync.Mutex
	pods  map[types.UID]*Pod
	given map[string][]time.Time
}

// Pod is the life of one pod: the times at which things happened to it, zero for what has
// not.
type Pod struct {
	// Name is namespace/name, as reports have it.
	Name string
	UID  types.UID
	// Claims are the names of its claims.
	Claims                                   []string
	Node                                     string
	Created, Scheduled, Running, Ended, Gone time.Time
	// Deleted is when the deletion was asked for.
	Deleted time.Time
	// Stopped are the times in which all of its containers had ended: because it was to end, or
	// until those that had ended with their machine were started again.
	Stopped []Span
}

// NewTruth knows nothing.
func NewTruth() *Truth {
	return &Truth{pods: map[types.UID]*Pod{}, given: map[string][]time.Time{}}
}

// GiveUp takes in that the node was seen not to be Ready any more, or to be gone.
func (t *Truth) GiveUp(node string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.given[node] = append(t.given[node], time.Now())
}

// GivenUp is when each node was seen not to be Ready any more, or to be gone.
func (t *Truth) GivenUp() map[string][]time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.given)
}

// Pod takes a change of a pod in; before or after is nil.
func (t *Truth) Pod(before, after *corev1.Pod) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	p := after
	if p == nil {
		p = before
	}
	life := t.pods[p.UID]
	if life == nil {
		life = &Pod{Name: p.Namespace + "/" + p.Name, UID: p.UID, Created: now}
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				life.Claims = append(life.Claims, v.PersistentVolumeClaim.ClaimName)
			}
		}
		t.pods[p.UID] = life
	}
	set := func(when *time.Time, happened bool) {
		if happened && when.IsZero() {
			*when = now
		}
	}
	life.Node = p.Spec.NodeName
	set(&life.Scheduled, p.Spec.NodeName != "")
	set(&life.Running, p.Status.Phase == corev1.PodRunning)
	set(&life.Ended, p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed)
	set(&life.Deleted, p.DeletionTimestamp != nil)
	set(&life.Gone, after == nil)
	life.containers(p.Status.ContainerStatuses, now)
}

// containers takes in what the pod's containers are now.
func (p *Pod) containers(are []corev1.ContainerStatus, now time.Time) {
	stopped := len(are) > 0 && !slices.ContainsFunc(are, func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil })
	switch known := p.stopped(now); {
	case stopped && !known:
		p.Stopped = append(p.Stopped, Span{From: now})
	case !stopped && known:
		p.Stopped[len(p.Stopped)-1].To = now
	}
}

// stopped reports whether all of the pod's containers had ended at that time, and none ran.
func (p *Pod) stopped(when time.Time) bool {
	return slices.ContainsFunc(p.Stopped, func(s Span) bool { return s.covers(when) })
}

// Pods are all that there ever were, in the order of their creation.
func (t *Truth) Pods() []Pod {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []Pod
	for _, p := range t.pods {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b Pod) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return slices.Compare([]string{a.Name, string(a.UID)}, []string{b.Name, string(b.UID)})
	})
	return all
}

// Waits reports whether the pod waits for a volume at that time: it is on a node and does
// not run yet, or not again after its machine was off, or its containers have ended and it
// does not go.
func (p *Pod) Waits(when time.Time) bool {
	switch {
	case p == nil, !is(p.Scheduled, when), is(p.Gone, when), is(p.Ended, when):
		return false
	case is(p.Deleted, when):
		return p.stopped(when)
	default:
		return !is(p.Running, when) || p.stopped(when)
	}
}

// Served is when the pod stopped waiting, and whether it ran then or was gone; zero where it
// never did.
func (p *Pod) Served(when time.Time) (at time.Time, ran bool) {
	again := slices.IndexFunc(p.Stopped, func(s Span) bool { return s.covers(when) && !s.To.IsZero() })
	switch {
	case again >= 0:
		return p.Stopped[again].To, true
	case !is(p.Running, when) && !p.Running.IsZero() && (p.Gone.IsZero() || p.Running.Before(p.Gone)):
		return p.Running, true
	default:
		return p.Gone, false
	}
}

// runs is since when the pod has run without a break at that time; zero where it does not.
func (p *Pod) runs(when time.Time) time.Time {
	if !is(p.Running, when) || is(p.Deleted, when) || is(p.Gone, when) || is(p.Ended, when) || p.stopped(when) {
		return time.Time{}
	}
	since := p.Running
	for _, s := range p.Stopped {
		if is(s.To, when) {
			since = s.To
		}
	}
	return since
}

// is reports whether something has happened by then.
func is(happened, when time.Time) bool { return !happened.IsZero() && !happened.After(when) }
