package index

import (
	"hash/maphash"
	"math/bits"
)

// table finds items by their key.
type table[K comparable, O any] struct {
	key   func(O) K
	seed  maphash.Seed
	items []O
	// slots are at the places that the keys hash to or the next free ones after them. At
	// most half of them are taken.
	slots []slot
}

// slot is where an item is, plus one; 0 is free.
type slot struct {
	place uint32
	// hash is a part of the key's, by which the slot has its place: most other keys need
	// not be looked at.
	hash uint32
}

func newTable[K comparable, O any](items []O, room int, key func(O) K) table[K, O] {
	return table[K, O]{key: key, seed: maphash.MakeSeed(), items: items, slots: make([]slot, slotsFor(room))}
}

// slotsFor is a power of two.
func slotsFor(items int) int { return 2 << bits.Len(uint(items)) }

// find is the place of the key's slot, or of the one where it would stand with the hash.
func (t *table[K, O]) find(key K) (i int, hash uint32) {
	hash = uint32(maphash.Comparable(t.seed, key)) //nolint:gosec // a part of it
	for i := t.home(hash); ; i = t.next(i) {
		if s := t.slots[i]; s.place == 0 || s.hash == hash && t.key(t.items[s.place-1]) == key {
			return i, hash
		}
	}
}

// home is where the slot of a hash is, or after which it is.
func (t *table[K, O]) home(hash uint32) int { return int(hash) & (len(t.slots) - 1) }

func (t *table[K, O]) next(i int) int { return (i + 1) & (len(t.slots) - 1) }
