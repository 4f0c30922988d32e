// Package index finds objects by what they are called, or by what they have in common.
package index

// New maps each key to its items, in their order. The lists are parts of one slice: nobody may
// write to them.
func New[K comparable, O any](items []O, key func(O) K) map[K][]O {
	counts := make(map[K]int, len(items))
	for _, item := range items {
		counts[key(item)]++
	}
	lists, room := make(map[K][]O, len(counts)), make([]O, len(items))
	for _, item := range items {
		k := key(item)
		list, known := lists[k]
		if !known {
			list, room = room[:0:counts[k]], room[counts[k]:]
		}
		lists[k] = append(list, item)
	}
	return lists
}
