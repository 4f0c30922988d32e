package snapshot

import (
	"fmt"
	"path"
	"strings"
)

// isByName reports whether the only object of the kind was asked for by its name: it stands alone,
// while other kinds were listed or the only pod stands alone as well. Such an object proves nothing
// about others. A text that has no lists at all, such as one that was split into its objects, may be
// the whole cluster.
func (c *collector) isByName(kind Kind) bool {
	if len(c.told) > 0 || !c.standsAlone(kind) {
		return false
	}
	return len(c.lists) > 0 || c.standsAlone(Pods)
}

// standsAlone reports whether the only object of the kind is a document of its own, as an API server
// printed it. A file that is named after its object is one of many.
func (c *collector) standsAlone(kind Kind) bool {
	if c.counts[kind] != 1 {
		return false
	}
	key := c.first(kind)
	of, ok := c.seen.states[key.mark()]
	file := c.seen.at(of, key.name).file
	return ok && of.item == 0 && of.uid != 0 && strings.TrimSuffix(path.Base(file), path.Ext(file)) != key.name
}

// first returns the identity of the first object of the kind.
func (c *collector) first(kind Kind) identity {
	for object := range resourceOf(kind).all(&c.objects) {
		return identity{kind, object.GetNamespace(), object.GetName()}
	}
	for pod := range c.left.all() {
		return pod.identity()
	}
	return identity{}
}

// byName returns the gap of a kind whose only object was asked for by its name.
func (c *collector) byName(kind Kind) Gap {
	return Gap{Kind: kind, Reason: ReasonNotInFile, Detail: fmt.Sprintf("%s %s stands alone, as what is asked for by its name: a list shows all (if the cluster has no other: --whole %s)",
		strings.ToLower(resourceOf(kind).Object), c.first(kind), kind)}
}
