package index

// Set has one item of each key. The order of its items depends on nothing but the calls.
// Several goroutines may read it at the same time, but not while one changes it.
type Set[K comparable, O any] struct {
	key    func(O) K
	items  []O
	places map[K]int // in items
}

// NewSet makes a set without items, with room for some.
func NewSet[K comparable, O any](room int, key func(O) K) *Set[K, O] {
	return &Set[K, O]{key, make([]O, 0, room), make(map[K]int, room)}
}

// Get returns the item of the key, if there is one.
func (s *Set[K, O]) Get(key K) (item O, known bool) {
	place, known := s.places[key]
	if known {
		item = s.items[place]
	}
	return item, known
}

// Find returns the item of the key, or the zero value.
func (s *Set[K, O]) Find(key K) O {
	item, _ := s.Get(key)
	return item
}

// Put adds the item, or replaces the one of its key.
func (s *Set[K, O]) Put(item O) {
	key := s.key(item)
	if place, known := s.places[key]; known {
		s.items[place] = item
		return
	}
	s.places[key] = len(s.items)
	s.items = append(s.items, item)
}

// Delete removes the item of the key, if there is one. The last item takes its place.
func (s *Set[K, O]) Delete(key K) {
	place, known := s.places[key]
	if !known {
		return
	}
	last := len(s.items) - 1
	s.places[s.key(s.items[last])] = place
	s.items[place] = s.items[last]
	delete(s.places, key)
	clear(s.items[last:])
	s.items = s.items[:last]
}

// Items returns all items, in an order that is not sorted. Whoever keeps them has to copy them.
func (s *Set[K, O]) Items() []O { return s.items }

// Reset removes all items.
func (s *Set[K, O]) Reset() {
	clear(s.items)
	clear(s.places)
	s.items = s.items[:0]
}
