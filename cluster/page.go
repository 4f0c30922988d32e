package cluster

import (
	"bytes"
	"hash/maphash"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// chain checks that the pages of one list agree about the list. The zero chain is for the
// first page.
type chain struct {
	began           bool
	resourceVersion string
	tokens          map[string]bool
	emptyPages      int
}

// next takes the metadata of the next page, and the number of objects in it.
func (c *chain) next(list metav1.ListMeta, objects int) error {
	if c.began && list.ResourceVersion != c.resourceVersion {
		return malformed("one page of the list is of version %q, and the next one of version %q", c.resourceVersion, list.ResourceVersion)
	}
	c.began, c.resourceVersion = true, list.ResourceVersion
	if list.Continue == "" {
		if left := list.RemainingItemCount; left != nil && *left > 0 {
			return malformed("the list ends although %d objects remain", *left)
		}
		return nil
	}
	if c.tokens[list.Continue] {
		return malformed("the list repeats a continue token: it would never end")
	}
	if c.tokens == nil {
		c.tokens = map[string]bool{}
	}
	c.tokens[list.Continue] = true
	if objects == 0 {
		c.emptyPages++
	}
	if c.emptyPages > maxEmptyPages {
		return malformed("%d pages of the list have no object and promise more", c.emptyPages)
	}
	return nil
}

// items checks that each object of a list may be in it: that it has a name, is in the
// requested namespace, and comes once. It keeps 8 bytes of each.
type items struct {
	namespaced bool
	namespace  string // "" where all of them were asked for
	seed       maphash.Seed
	hashes     []uint64
	// last is the name of the previous object. API servers sort their lists: as long as the
	// names increase, known is not needed.
	last, name []byte
	// known holds the hashes of the names, once a name did not increase; nil until then. Two
	// of a million names have the same hash once in 30 million lists.
	known map[uint64]bool
}

func newItems(kind snapshot.Kind, namespace string) *items {
	return &items{namespaced: snapshot.ResourceOf(kind).Namespaced, namespace: namespace, seed: maphash.MakeSeed()}
}

// plausible checks an object by itself.
func (i *items) plausible(o metav1.Object) error {
	namespace, name := o.GetNamespace(), o.GetName()
	switch {
	case name == "":
		return malformed("an object of the list has no name")
	case i.namespaced && namespace == "":
		return malformed("%q in the list has no namespace", name)
	case !i.namespaced && namespace != "":
		return malformed("%q in the list has a namespace, which its kind does not", name)
	case i.namespace != "" && namespace != i.namespace:
		return malformed("%q in the list is of namespace %q: %q was asked for", name, namespace, i.namespace)
	}
	return nil
}

// take checks the next object of the list.
func (i *items) take(o metav1.Object) error {
	if i == nil {
		return nil
	}
	if err := i.plausible(o); err != nil {
		return err
	}
	if len(i.hashes) >= maxObjects {
		return &limitError{"the list has more than a million objects"}
	}
	i.name = append(append(append(i.name[:0], o.GetNamespace()...), '/'), o.GetName()...)
	hash := maphash.Bytes(i.seed, i.name)
	if i.known == nil && bytes.Compare(i.name, i.last) <= 0 {
		i.remember()
	}
	if i.known != nil {
		if i.known[hash] {
			return malformed("%q comes twice in the list", i.name)
		}
		i.known[hash] = true
	}
	i.hashes = append(i.hashes, hash)
	i.last, i.name = i.name, i.last
	return nil
}

func (i *items) remember() {
	i.known = make(map[uint64]bool, len(i.hashes))
	for _, h := range i.hashes {
		i.known[h] = true
	}
}

// rewind forgets all but the first count objects: the others are read again.
func (i *items) rewind(count int) {
	if i != nil {
		i.hashes = i.hashes[:count]
		i.remember() // the previous name is lost
	}
}
