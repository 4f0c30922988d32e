package cluster

import (
	"fmt"
	"reflect"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/intern"
)

// store keeps the objects of a kind for the reflector.
type store[P object] struct {
	choice[P]
	same func(before, now P) bool // as in kindOf
	// whole says that all of the object is read, which a command names; nil is of none.
	whole    func(P) bool
	note     func()
	replaced func()
	sharer   *intern.Interner // of the reflector, which calls from one goroutine
	// streamed says that the Transformer has had what the next Replace gets: to make it
	// small twice would take seconds.
	streamed bool

	mu      sync.Mutex
	objects map[string]P
}

// keepShared makes ready to be kept what has just come: afterwards it has no more than is
// read, it shares with others what earlier snapshots have too, and nobody may write to it.
func (s *store[P]) keepShared(o P) {
	snapshot.Trim(o)
	if s.whole == nil || !s.whole(o) {
		Reduce(o)
	}
	s.sharer.Share(o)
}

func (s *store[P]) Add(object any) error { return s.put(object) }

func (s *store[P]) Update(object any) error { return s.put(object) }

func (s *store[P]) put(object any) error {
	o, ok := object.(P)
	if !ok {
		return fmt.Errorf("an unexpected %T", object)
	}
	key := cache.MetaObjectToName(o).String()
	s.mu.Lock()
	before, known := s.objects[key]
	switch {
	case !s.wants(o):
		delete(s.objects, key)
	default:
		s.keepShared(o)
		s.objects[key] = o
	}
	_, kept := s.objects[key]
	s.mu.Unlock()
	if known != kept || kept && (s.same == nil || !s.same(before, o)) {
		s.note()
	}
	return nil
}

func (s *store[P]) Delete(object any) error {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	o, ok := object.(P)
	if !ok {
		return fmt.Errorf("an unexpected %T", object)
	}
	s.mu.Lock()
	delete(s.objects, cache.MetaObjectToName(o).String())
	s.mu.Unlock()
	s.note()
	return nil
}

func (s *store[P]) Replace(list []any, _ string) error {
	objects := make(map[string]P, len(list))
	for _, item := range list {
		o, ok := item.(P)
		if !ok {
			return fmt.Errorf("an unexpected %T", item)
		}
		if s.wants(o) {
			snapshot.Trim(o) // a list may come after a stream that broke off
			if !s.streamed {
				s.keepShared(o)
			}
			objects[cache.MetaObjectToName(o).String()] = o
		}
	}
	s.streamed = false
	s.mu.Lock()
	s.objects = objects
	s.mu.Unlock()
	s.replaced()
	s.note()
	return nil
}

// Resync has nothing to do: nobody waits for an object that has not changed.
func (s *store[P]) Resync() error { return nil }

// Transformer makes small what arrives before it is collected, so that a list is never
// held in full.
func (s *store[P]) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		if o, ok := object.(P); ok {
			s.streamed = true
			s.keepShared(o)
		}
		return object, nil
	}
}

// fill gives the objects over; nobody writes to them any more.
func (s *store[P]) fill(o *snapshot.Objects) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]P, 0, len(s.objects))
	for _, object := range s.objects {
		list = append(list, object)
	}
	*snapshot.ListOf[P](o) = list
}

// sameHolder is true of a lease that was renewed and of nothing else: in a large
// cluster that happens hundreds of times in a second.
func sameHolder(before, now *coordinationv1.Lease) bool {
	a, b := before.Spec, now.Spec
	a.RenewTime, b.RenewTime = nil, nil
	return before.UID == now.UID && reflect.DeepEqual(a, b)
}
