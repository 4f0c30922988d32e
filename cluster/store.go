package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/index"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/intern"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// store keeps the objects of a kind for the reflector. Objects that it does not keep leave
// nothing behind: of 150,000 pods that is four in five.
type store[P object] struct {
	// choose makes the choice of the kept objects; for pods it depends on the needs of other
	// objects.
	choose   func(facts.PodNeeds) choice[P]
	same     func(before, now P) bool // as in kindOf
	note     func()
	replaced func()
	// seen is called for each change of a kept object: before is nil where the object is new,
	// now is nil where it is gone. It is not called for the objects that a list replaces.
	seen func(before, now P)
	// began is called when a list was taken over; it may be nil.
	began func()

	// Mutex is held while the store is read or changed. Looks read its objects without it:
	// nobody writes to them.
	sync.Mutex
	objects *index.Set[types.NamespacedName, P]
	// others counts the objects that were read and are not kept.
	others int
	// needs decide which pods are kept from now on. met is the part of them for which the
	// store has all pods; unread is why it lacks those of the others. See widen.
	needs, met facts.PodNeeds
	unread     error
	keep       func(P) bool
	// list is the list that was read and that the next Replace takes over.
	list *readList[P]
	// lists counts the lists that were taken over.
	lists int
	// left has the objects that were deleted, or no longer kept, since widen; nil while
	// nobody asks.
	left map[types.NamespacedName]bool

	sharer *intern.Interner // of the reflector, which calls from one goroutine
	shared int
}

// readList is a list as it was read.
type readList[P object] struct {
	objects []P
	seen    int            // also those that were not kept
	needs   facts.PodNeeds // for which it was chosen
}

func newStore[P object](choose func(facts.PodNeeds) choice[P], note, replaced func()) *store[P] {
	s := &store[P]{choose: choose, note: note, replaced: replaced, objects: index.NewSet(0, nameOf[P]), sharer: intern.New()}
	s.keep = choose(s.needs).wants
	return s
}

// sharedEvents is the number of events after which the shared values are forgotten: values
// are shared among objects that come soon after each other.
const sharedEvents = 2000

// keepShared prepares an object that is newly kept: it is trimmed, and shares equal values
// with the objects of earlier snapshots. Nobody may write to it afterwards.
func (s *store[P]) keepShared(o P) {
	trim.Object(o)
	if s.shared++; s.shared%sharedEvents == 0 {
		s.sharer = intern.New()
	}
	s.sharer.Share(o)
}

func nameOf[P object](o P) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func (s *store[P]) Add(object any) error { return s.put(object, true) }

func (s *store[P]) Update(object any) error { return s.put(object, false) }

func (s *store[P]) put(object any, isNew bool) error {
	o, ok := object.(P)
	if !ok {
		return fmt.Errorf("an unexpected %T", object)
	}
	s.Lock()
	name := nameOf(o)
	before, known := s.objects.Get(name)
	kept := s.keep(o)
	if other := !known && !isNew; other && kept {
		s.others--
	} else if !other && !kept {
		s.others++
	}
	if kept {
		s.keepShared(o)
		s.objects.Put(o)
		s.tell(before, o)
	} else {
		s.drop(name)
	}
	s.Unlock()
	if known != kept || kept && (s.same == nil || !s.same(before, o)) {
		s.note()
	}
	return nil
}

// drop removes an object. The caller holds the store's lock.
func (s *store[P]) drop(name types.NamespacedName) {
	if before, known := s.objects.Get(name); known {
		var none P
		s.tell(before, none)
	}
	s.objects.Delete(name)
	if s.left != nil {
		s.left[name] = true
	}
}

func (s *store[P]) tell(before, now P) {
	if s.seen != nil {
		s.seen(before, now)
	}
}

func (s *store[P]) Delete(object any) error {
	if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = gone.Obj
	}
	o, ok := object.(P)
	if !ok {
		return fmt.Errorf("an unexpected %T", object)
	}
	s.Lock()
	name := nameOf(o)
	_, known := s.objects.Get(name)
	if !known {
		s.others--
	}
	s.drop(name)
	s.Unlock()
	if known {
		s.note()
	}
	return nil
}

// choice is the choice for a list that is read now.
func (s *store[P]) choice() (choice[P], facts.PodNeeds) {
	s.Lock()
	defer s.Unlock()
	return s.choose(s.needs), s.needs
}

// held returns the object as it is held, if it is the same: otherwise a list that is read
// again would take the memory of all objects twice. Where an etcd was restored, the same
// version may have other content.
func (s *store[P]) held(o P) P {
	s.Lock()
	defer s.Unlock()
	held, known := s.objects.Get(nameOf(o))
	if known && held.GetUID() == o.GetUID() && held.GetResourceVersion() == o.GetResourceVersion() && equality.Semantic.DeepEqual(held, o) {
		return held
	}
	var none P
	return none
}

// ready hands over a list that was read, for Replace: its objects that were kept of all seen.
func (s *store[P]) ready(objects []P, seen int, needs facts.PodNeeds) {
	s.Lock()
	defer s.Unlock()
	s.list = &readList[P]{objects, seen, needs}
}

// Replace takes over the list that is ready: the reflector's own list has no objects.
func (s *store[P]) Replace([]any, string) error {
	s.Lock()
	list := s.list
	if list == nil {
		s.Unlock()
		return fmt.Errorf("no list was read")
	}
	s.objects.Reset() // the objects that stay are in the list
	for _, o := range list.objects {
		if s.keep(o) {
			s.objects.Put(o)
		}
	}
	s.others = list.seen - len(s.objects.Items())
	s.list, s.met = nil, both(list.needs, s.needs)
	s.lists++
	if s.began != nil {
		s.began()
	}
	s.Unlock()
	s.replaced()
	s.note()
	return nil
}

// Resync does nothing: nobody waits for an object that has not changed.
func (s *store[P]) Resync() error { return nil }

// fill adds the objects to o; nobody writes to them any more.
func (s *store[P]) fill(o *snapshot.Objects) {
	s.Lock()
	defer s.Unlock()
	*snapshot.ListOf[P](o) = slices.Clone(s.objects.Items())
}

// notKept counts the objects that were read and are not kept.
func (s *store[P]) notKept() int {
	s.Lock()
	defer s.Unlock()
	return s.others
}

// sameHolder reports whether the lease was only renewed: in a large cluster that happens
// hundreds of times in a second.
func sameHolder(before, now *coordinationv1.Lease) bool {
	a, b := before.Spec, now.Spec
	a.RenewTime, b.RenewTime = nil, nil
	return before.UID == now.UID && reflect.DeepEqual(a, b)
}

var _ cache.ReflectorStore = (*store[*corev1.Pod])(nil)
