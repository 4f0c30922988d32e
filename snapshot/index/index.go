// Package index finds objects by what they are called, or by what they have in common. A map
// of the 30,000 volumes of a large cluster takes three megabytes, because it keeps the keys;
// these take less than one.
package index

// Index finds the items of a list that have a key.
type Index[K comparable, O any] struct {
	// table has the first item of each key. Those of one key stand next to each other, in
	// the order of the list.
	table[K, O]
	// several says that some key has more than one item.
	several bool
}

// New makes an index of the items, which nobody may write to any more.
func New[K comparable, O any](items []O, key func(O) K) *Index[K, O] {
	x := &Index[K, O]{table: newTable(items, len(items), key)}
	var first []uint32 // of each item that of the same key; nil while no two have one
	for i, item := range items {
		place := x.place(key(item), i)
		if int(place) != i && first == nil {
			first = make([]uint32, len(items))
			for j := range i {
				first[j] = uint32(j) //nolint:gosec // no list is as long
			}
		}
		if first != nil {
			first[i] = place
		}
	}
	if first != nil {
		x.group(first)
	}
	return x
}

// place is that of the key, which gets this one if it has none.
func (x *Index[K, O]) place(key K, place int) uint32 {
	i, hash := x.find(key)
	if x.slots[i].place == 0 {
		x.slots[i] = slot{uint32(place + 1), hash} //nolint:gosec // no list is as long
	}
	return x.slots[i].place - 1
}

// group puts the items of one key next to each other.
func (x *Index[K, O]) group(first []uint32) {
	next := make([]uint32, len(x.items)) // where the next item of each key goes
	for _, f := range first {
		next[f]++
	}
	at := uint32(0)
	for f, count := range next {
		next[f] = at
		at += count
	}
	grouped := make([]O, len(x.items))
	for i, f := range first {
		grouped[next[f]] = x.items[i]
		next[f]++
	}
	x.items, x.several = grouped, true
	clear(x.slots)
	for i, item := range grouped {
		x.place(x.key(item), i)
	}
}

// All are the items of the key, in the order of the list. Nobody may write to them. A nil
// Index has none.
func (x *Index[K, O]) All(key K) []O {
	if x == nil {
		return nil
	}
	i, _ := x.find(key)
	to := int(x.slots[i].place)
	if to == 0 {
		return nil
	}
	from := to - 1
	for x.several && to < len(x.items) && x.key(x.items[to]) == key {
		to++
	}
	return x.items[from:to:to]
}
