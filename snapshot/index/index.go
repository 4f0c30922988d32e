// Package index finds objects by what they are called, or by what they have in common.
package index

// Index finds the items of a list that have a key.
type Index[K comparable, O any] struct{ lists map[K][]O }

// New makes an index of the items.
func New[K comparable, O any](items []O, key func(O) K) *Index[K, O] {
	counts := make(map[K]int, len(items))
	for _, item := range items {
		counts[key(item)]++
	}
	// The lists are parts of one slice.
	lists, room := make(map[K][]O, len(counts)), make([]O, len(items))
	for _, item := range items {
		k := key(item)
		list, known := lists[k]
		if !known {
			list, room = room[:0:counts[k]], room[counts[k]:]
		}
		lists[k] = append(list, item)
	}
	return &Index[K, O]{lists}
}

// All returns the items of the key, in the order of the list. Nobody may write to them. A
// nil Index has none.
func (x *Index[K, O]) All(key K) []O {
	if x == nil {
		return nil
	}
	return x.lists[key]
}
