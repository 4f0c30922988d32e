package index_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/index"
)

type item struct {
	key   string
	place int
}

// TestIndex: as a map of lists.
func TestIndex(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := make([]string, rapid.IntRange(1, 30).Draw(t, "keys"))
		for i := range keys {
			keys[i] = fmt.Sprint("k", i)
		}
		key := rapid.SampledFrom(append(keys, ""))
		var items []item
		lists := map[string][]item{}
		for i := range rapid.IntRange(0, 60).Draw(t, "items") {
			one := item{key.Draw(t, "key"), i}
			items, lists[one.key] = append(items, one), append(lists[one.key], one)
		}
		before := slices.Clone(items)
		x := index.New(items, func(i item) string { return i.key })
		for _, k := range append(keys, "", "unknown") {
			got := x[k]
			if !slices.Equal(got, lists[k]) {
				t.Fatalf("%q: %v, not %v", k, got, lists[k])
			}
			if len(got) != cap(got) {
				t.Fatalf("%q: who appends writes to the next key's", k)
			}
		}
		if !slices.Equal(items, before) {
			t.Fatal("the list was written to")
		}
	})
}

// TestSet: as a map, whatever comes and goes.
func TestSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		keys := rapid.IntRange(0, rapid.IntRange(1, 50).Draw(t, "keys"))
		set, items := index.NewSet(rapid.IntRange(0, 20).Draw(t, "room"), func(i item) string { return i.key }), map[string]item{}
		for i := range rapid.IntRange(0, 200).Draw(t, "steps") {
			key := fmt.Sprint("k", keys.Draw(t, "key"))
			switch rapid.IntRange(0, 20).Draw(t, "step") {
			case 0:
				set.Reset()
				clear(items)
			case 1, 2, 3, 4, 5, 6, 7, 8:
				set.Delete(key)
				delete(items, key)
			default:
				set.Put(item{key, i})
				items[key] = item{key, i}
			}
			got, known := set.Get(key)
			if want, is := items[key]; got != want || known != is || set.Find(key) != want {
				t.Fatalf("%s: %v %v, not %v %v", key, got, known, want, is)
			}
		}
		if len(set.Items()) != len(items) {
			t.Fatalf("%v, not %v", set.Items(), items)
		}
		for _, i := range set.Items() {
			if items[i.key] != i {
				t.Fatalf("%v, not %v", i, items[i.key])
			}
		}
		for key, want := range items {
			if got, _ := set.Get(key); got != want {
				t.Fatalf("%s: %v, not %v", key, got, want)
			}
		}
	})
}
