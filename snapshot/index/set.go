package index

// Set has one item of each key. Several may read it at the same time, but not while one
// changes it.
type Set[K comparable, O any] struct{ table[K, O] }

// NewSet makes a set without items, with room for some.
func NewSet[K comparable, O any](room int, key func(O) K) *Set[K, O] {
	return &Set[K, O]{newTable(make([]O, 0, room), room, key)}
}

// Get is the item of the key, if there is one.
func (s *Set[K, O]) Get(key K) (item O, known bool) {
	i, _ := s.find(key)
	if s.slots[i].place == 0 {
		return item, false
	}
	return s.items[s.slots[i].place-1], true
}

// Find is the item of the key, the zero value where there is none.
func (s *Set[K, O]) Find(key K) O {
	item, _ := s.Get(key)
	return item
}

// Put adds the item, in place of one of its key.
func (s *Set[K, O]) Put(item O) {
	i, hash := s.find(s.key(item))
	if place := s.slots[i].place; place > 0 {
		s.items[place-1] = item
		return
	}
	s.items = append(s.items, item)
	s.slots[i] = slot{uint32(len(s.items)), hash} //nolint:gosec // no list is as long
	if len(s.items)*2 > len(s.slots) {
		s.rehash()
	}
}

// rehash makes room for more.
func (s *Set[K, O]) rehash() {
	before := s.slots
	s.slots = make([]slot, slotsFor(len(s.items)))
	for _, taken := range before {
		if taken.place == 0 {
			continue
		}
		i := s.home(taken.hash)
		for s.slots[i].place > 0 {
			i = s.next(i)
		}
		s.slots[i] = taken
	}
}

// Delete takes out the item of the key, if there is one.
func (s *Set[K, O]) Delete(key K) {
	free, _ := s.find(key)
	place, last := s.slots[free].place, len(s.items)-1
	if place == 0 {
		return
	}
	if int(place-1) != last { // the last item takes the place
		i, _ := s.find(s.key(s.items[last]))
		s.slots[i].place = place
		s.items[place-1] = s.items[last]
	}
	clear(s.items[last:])
	s.items = s.items[:last]
	// A free slot ends each search: what was put after this one because it was taken, moves.
	for i := s.next(free); s.slots[i].place > 0; i = s.next(i) {
		if s.distance(s.home(s.slots[i].hash), i) >= s.distance(free, i) {
			s.slots[free] = s.slots[i]
			free = i
		}
	}
	s.slots[free] = slot{}
}

// distance is how many slots lie between two, in the direction of a search.
func (s *Set[K, O]) distance(from, to int) int { return (to - from) & (len(s.slots) - 1) }

// Items are all, in no order. Whoever keeps them has to copy them.
func (s *Set[K, O]) Items() []O { return s.items }

// Reset takes out all, and keeps the room.
func (s *Set[K, O]) Reset() {
	clear(s.items)
	clear(s.slots)
	s.items = s.items[:0]
}
