package snapshot

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"
)

// listing is one list of a kind that was read: a document, or one of several lists in it.
type listing struct {
	at place
	// of are the namespaces of its objects; "" stands for objects without one.
	of sets.Set[string]
	// size is the number of its objects, and shared how many of them each earlier list of the kind
	// has, too. Newer are those of these lists that have a newer state of one. All are numbers of
	// lists, counted from 1.
	size   int
	shared map[int32]int
	newer  sets.Set[int32]
	// between are its objects that an earlier list and a later one have, too.
	between sets.Set[mark]
	// version is the largest resourceVersion of its objects.
	version uint64
	// later is the list that was read of the same objects at a later time.
	later *listing
	// some reports whether the later list has no object that this one lacks: it may be of some names.
	some bool
}

// noteListing notes that the object stands in the list at the place, and what was known of it before.
func (c *collector) noteListing(key identity, at place, known known) {
	lists := c.listings[key.kind]
	if n := len(lists); n == 0 || lists[n-1].at.file != at.file || lists[n-1].at.document != at.document || at.item == 1 {
		lists = append(lists, &listing{at: at, of: sets.New[string](), shared: map[int32]int{}, newer: sets.New[int32](), between: sets.New[mark]()})
		c.listings[key.kind] = lists
	}
	n := int32(len(lists))
	l, state := lists[n-1], c.seen.states[key.mark()]
	l.size++
	l.of.Insert(key.namespace)
	if known != older {
		l.version = max(l.version, state.version)
	}
	if earlier := state.last; earlier > 0 && earlier != n {
		l.shared[earlier]++
		if known == older {
			l.newer.Insert(earlier)
		}
	}
	if state.first == 0 {
		state.first = n
	}
	if between := state.last; between != state.first && between != n && between > 0 {
		lists[between-1].between.Insert(key.mark())
	}
	state.last = n
	c.seen.states[key.mark()] = state
}

// listsOf returns the lists that have the object, as they were read.
func (c *collector) listsOf(key identity) []*listing {
	lists, mark := c.listings[key.kind], key.mark()
	of := c.seen.states[mark]
	if of.last == 0 {
		return nil
	}
	with := []*listing{lists[of.first-1]}
	if of.first == of.last { // as nearly all: a dump may have thousands of lists
		return with
	}
	for _, l := range lists[of.first : of.last-1] {
		if l.between.Has(mark) {
			with = append(with, l)
		}
	}
	return append(with, lists[of.last-1])
}

// singleNamespaces returns the number of lists of the kind, if each has objects of one namespace; 0 if one has
// more, or if an object stands in no list.
func (c *collector) singleNamespaces(kind Kind) int {
	lists := c.listings[kind]
	for key := range c.all(kind) {
		if c.seen.states[key.mark()].last == 0 {
			return 0
		}
	}
	if slices.ContainsFunc(lists, func(l *listing) bool { return len(l.of) > 1 }) {
		return 0
	}
	return len(lists)
}

// dropSuperseded drops the objects of a list that a later list of the same kind no longer has. Two
// lists with an object in common were read of the same cluster one after the other, as when somebody
// looks again; what only the earlier has was deleted in between. A later list of one namespace says
// nothing of others.
func (c *collector) dropSuperseded() {
	if c.header != nil {
		return
	}
	times := &c.clock.of
	for _, r := range resources {
		lists := c.listings[r.Kind]
		for _, l := range lists {
			for earlier, shared := range l.shared {
				older, later := lists[earlier-1], l
				// The files of a folder are read in the order of their names. A list that lacks the
				// newest object of an earlier one has the smaller version: the times of the files come first.
				if file, before := l.at.file, older.at.file; l.newer.Has(earlier) ||
					file != before && !times.before(before, file) && (times.before(file, before) || l.version < older.version) {
					older, later = later, older
				}
				older.later, older.some = later, later.size == shared
			}
		}
		c.dropKindSuperseded(r, lists)
	}
}

func (c *collector) dropKindSuperseded(r *row, lists []*listing) {
	gone := map[*listing][]string{}
	isGone := func(key identity) bool {
		of := c.listsOf(key)
		if len(of) == 0 || slices.ContainsFunc(of, func(l *listing) bool { return l.has(key) }) {
			return false
		}
		last := of[len(of)-1]
		gone[last] = append(gone[last], key.String())
		return true
	}
	r.drop(&c.objects, func(object apiObject) bool {
		key := identity{r.Kind, object.GetNamespace(), object.GetName()}
		if !isGone(key) {
			return false
		}
		c.counts[r.Kind]--
		c.altered.forget(key)
		return true
	})
	if r.Kind == Pods {
		c.left.drop(isGone)
	}
	for _, l := range lists {
		if names := gone[l]; len(names) > 0 {
			slices.Sort(names)
			if l.some {
				c.broken[r.Kind] = Gap{Kind: r.Kind, Reason: ReasonOtherTime, Detail: fmt.Sprintf("%s has fewer of them than %s, and no other: were they deleted, or was it asked for some by name?", l.later.at, l.at)}
			}
			c.notes = append(c.notes, Warning(fmt.Sprintf("%s has a later list of %s than %s; what only the earlier has is taken for deleted since: %s", l.later.at, r.Kind, l.at, some(names))))
		}
	}
}

// has reports whether the cluster still had the object that stands in the list, as far as later lists show.
func (l *listing) has(key identity) bool {
	return l.later == nil || len(l.later.of) == 1 && !l.later.of.Has(key.namespace)
}

// again returns how many lists of the kind show no further namespace: those with a later list of the same
// objects, and all of them if one has objects of several namespaces.
func (c *collector) again(kind Kind) int {
	n := 0
	for _, l := range c.listings[kind] {
		if len(l.of) > 1 {
			return len(c.listings[kind])
		}
		if l.later != nil {
			n++
		}
	}
	return n
}

// superseded reports whether each list of the kind in the files has a later one.
func (c *collector) superseded(kind Kind, files []fileTime) bool {
	found := false
	for _, l := range c.listings[kind] {
		if slices.ContainsFunc(files, func(f fileTime) bool { return f.holds(l.at.file) }) {
			if l.later == nil {
				return false
			}
			found = true
		}
	}
	return found
}
