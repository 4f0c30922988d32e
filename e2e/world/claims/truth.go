// Package claims judges what the tool said of a world by what the world then did.
package claims

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Truth is what became of the pods of a world.
type Truth struct {
	mu   sync.Mutex
	pods map[types.UID]*Pod
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
	// Deleted is when the deletion was asked for, and Stopped when its containers had ended.
	Deleted, Stopped time.Time
}

// NewTruth knows nothing.
func NewTruth() *Truth { return &Truth{pods: map[types.UID]*Pod{}} }

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
	set(&life.Stopped, len(p.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Terminated == nil }))
	set(&life.Gone, after == nil)
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
// not run yet, or its containers have ended and it does not go.
func (p *Pod) Waits(when time.Time) bool {
	switch {
	case p == nil, !is(p.Scheduled, when), is(p.Gone, when), is(p.Ended, when):
		return false
	case is(p.Deleted, when):
		return is(p.Stopped, when)
	default:
		return !is(p.Running, when)
	}
}

// Served is when the pod stopped waiting: it ran, or was gone; zero where it never did.
func (p *Pod) Served(when time.Time) time.Time {
	if !is(p.Running, when) && !p.Running.IsZero() && (p.Gone.IsZero() || p.Running.Before(p.Gone)) {
		return p.Running
	}
	return p.Gone
}

// is reports whether something has happened by then.
func is(happened, when time.Time) bool { return !happened.IsZero() && !happened.After(when) }
