package facts

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Kept is a fact that many checks ask for and that is the same for all checks of a report. Any
// package may declare one.
type Kept[V any] struct {
	_ byte // so that each has an address of its own
}

// Of is the fact in the view. find computes it once, and callers must not change it.
func (k *Kept[V]) Of(v *View, find func(*View) V) V {
	return kept[fact[V]](v, k).get(v, find)
}

// KeptBy is a Kept fact for each key.
type KeptBy[K comparable, V any] struct {
	_ byte
}

// Of is the fact about the key in the view.
func (k *KeptBy[K, V]) Of(v *View, key K, find func(*View, K) V) V {
	return kept[facts[K, V]](v, k).get(v, key, find)
}

// kept is what the views of one snapshot have under the key.
func kept[T any](v *View, key any) *T {
	one, known := v.memory.Load(key)
	if !known {
		one, _ = v.memory.LoadOrStore(key, new(T))
	}
	return one.(*T)
}

// fact is computed once. Checks that run side by side wait for the first that asks.
type fact[V any] struct {
	answer[V]
	// later are the values for views of Later, where they differ.
	later facts[time.Duration, V]
}

type answer[V any] struct {
	once  sync.Once
	value V
	// left are the times after which the value changes: see View.Left.
	left sets.Set[time.Duration]
}

// of is the value for a view like v, looked at later.
func (a *answer[V]) of(v *View, later time.Duration, find func(*View) V) V {
	a.once.Do(func() {
		own := v.apart(later)
		a.value = find(own)
		a.left = own.left
	})
	v.note(a, a.left)
	return a.value
}

func (f *fact[V]) get(v *View, find func(*View) V) V {
	value := f.of(v, 0, find)
	if v.later > 0 && anyEnds(f.left, v.later) {
		value = f.later.one(v.later).of(v, v.later, find)
	}
	return value
}

// facts are facts by key.
type facts[K comparable, V any] struct {
	mutex sync.Mutex
	known map[K]*fact[V]
}

func (f *facts[K, V]) get(v *View, key K, find func(*View, K) V) V {
	return f.one(key).get(v, func(v *View) V { return find(v, key) })
}

func (f *facts[K, V]) one(key K) *fact[V] {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	one := f.known[key]
	if one == nil {
		if f.known == nil {
			f.known = map[K]*fact[V]{}
		}
		one = &fact[V]{}
		f.known[key] = one
	}
	return one
}
