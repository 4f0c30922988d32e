package snapshot

import (
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// object reads one object of any kind.
func (c *collector) object(at place, t typeName, raw []byte) error {
	if t == (typeName{}) {
		t = c.items
	}
	switch {
	case t.kind == "" && t.apiVersion == "":
		if e := watched(raw); e != nil {
			return c.watch(at, e)
		}
		if of := backend.FormatOf(raw); of != "" {
			return at.errorf("%w", listOfStorage(of))
		}
		return at.errorf("no Kubernetes object: it has neither apiVersion nor kind: write the objects with -o yaml")
	case t.kind == "":
		return at.errorf("an object of %s without kind", plain(t.apiVersion))
	case t.apiVersion == "":
		return at.errorf("%s without apiVersion", plain(t.kind))
	case isHeader(t):
		return own(c.readHeader(at, t, raw))
	case isController(t):
		return own(c.readController(at, raw))
	case isManager(t):
		return own(c.readManager(at, raw))
	case isBackend(t):
		return own(c.readBackend(at, raw))
	}
	s := byType[t]
	if s == nil {
		return c.foreign(at, t, raw)
	}
	if values, depth := countValues(raw); values > c.limits.values {
		return at.errorf("%s: more than %d fields and items in one object", title(s, raw), c.limits.values)
	} else if depth > c.limits.depth {
		return at.errorf("%s: nested more than %d deep", title(s, raw), c.limits.depth)
	}
	if hasAbsurdNumber(raw) {
		return at.errorf("%s: a number that no API server accepts", title(s, raw))
	}
	object, strict, err := s.decode(raw)
	if err != nil {
		return at.errorf("%s: %s: no API server shows that, so give the file as kubectl wrote it", title(s, raw), plain(whyUndecodable(err)))
	}
	if len(strict) > 0 {
		return at.errorf("%s: %s", title(s, raw), plain(strict[0].Error()))
	}
	return c.take(at, s, raw, object)
}

// take adds an object that was decoded.
func (c *collector) take(at place, s *row, raw []byte, object apiObject) error {
	c.last = added{}
	if object.GetName() == "" {
		return at.errorf("%s without metadata.name", s.Object)
	}
	setNamespace(s, object)
	if wrong := checkNames(object); wrong.reason != "" {
		return at.errorf("%s: %s %q is a name that no API server accepts: %s: if somebody has replaced it, give each object a name of its own, as kubectl volume-doctor snapshot --names=hash does",
			title(s, raw), wrong.field, plain(wrong.name), wrong.reason)
	}
	if field := missingNode(object); field != "" {
		return at.errorf("%s has no %s: no API server shows that, so give the file as kubectl wrote it", title(s, raw), field)
	}
	if s.Kind == Nodes {
		c.clusters.node(at.file, object)
	}
	if c.twin != nil {
		return nil
	}
	c.total++
	key := identity{s.Kind, object.GetNamespace(), object.GetName()}
	known, err := c.seen.add(key, object, at)
	if err != nil && c.oneOfMany {
		c.twin = err
		return nil
	}
	if err == nil && at.item > 0 {
		c.noteListing(key, at, known)
		if !known.kept() { // its list has an age, too
			c.clock.of.note(s.Kind, evidenceOf(s, object).at, isBeating(object))
		}
	}
	if !known.kept() || err != nil {
		return err
	}
	if err := c.countObject(at, s.Kind); err != nil {
		return err
	}
	c.clock.note(s, object)
	c.countKnown(s.Kind, known)
	if known == newer && s.Kind == Pods && c.left.ofUse != nil {
		return leftOneError{} // the older state may not have been kept
	}
	c.namespaces.Insert(key.namespace)
	if known == newer {
		c.altered.forget(key)
	}
	c.altered.note(key, raw, object)
	if pod, ok := object.(*corev1.Pod); ok && c.left.leaves(pod, &c.objects, c.sharer) {
		return nil
	}
	// An API server does not set the kind of a list's items either.
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	trim.Object(object)
	c.sharer.Share(object)
	s.add(&c.objects, object)
	c.last = added{key, s, object, known}
	return nil
}

// listOfStorage is the error for a list that a storage system's own tool wrote.
type listOfStorage backend.Format

func (l listOfStorage) Error() string {
	return "the storage system's own list of volumes (" + string(l) + "), which has no Kubernetes objects: give it with --backend, and the objects with -f"
}

// foreign reads an object of a kind that is not kept.
func (c *collector) foreign(at place, t typeName, raw []byte) error {
	switch {
	case groupOf(t.apiVersion) == "meta.k8s.io":
		return at.errorf("%s (%s) holds columns or names, not whole objects; write them with -o yaml", plain(t.kind), plain(t.apiVersion))
	case t.apiVersion == "v1" && t.kind == "Status":
		var status struct{ Message string }
		_ = json.Unmarshal(raw, &status) // a message that is not a string is left out
		return at.errorf("an answer of the API server that holds no object (Status): %s", plain(status.Message))
	case t == anyList, byType[itemType(t)] != nil, lookalike(itemType(t)) != nil:
		return c.nested(at, raw)
	}
	if s := lookalike(t); s != nil {
		c.otherVersion(s, t)
	}
	if t == aNamespace {
		c.clusters.object(at.file, raw)
	}
	if backend.IsDrivers(t.apiVersion, t.kind) && c.drivers.Take(raw, !c.oneOfMany && c.total == 0) {
		return nil
	}
	c.workloads.note(t, raw)
	c.ignore(t, 1)
	return nil
}

// aNamespace is the type of the namespaces, which are not kept.
var aNamespace = typeName{"v1", "Namespace"}

// maxNested is the largest depth of lists within lists.
const maxNested = 5

// nested reads a list that is an item of another list, as when the answers of several calls were
// joined.
func (c *collector) nested(at place, raw []byte) error {
	if c.depth++; c.depth > maxNested {
		return at.errorf("lists in lists, more than %d deep", maxNested)
	}
	defer func() { c.depth-- }()
	return c.jsonText(raw, at)
}

// ignore counts objects of a kind that is not read, and bounds the memory for its name.
func (c *collector) ignore(t typeName, n int) {
	const longest = 200
	for _, text := range []*string{&t.apiVersion, &t.kind} {
		if len(*text) > longest {
			*text = strings.Clone((*text)[:longest])
		}
	}
	if _, ok := c.ignored[t]; !ok && len(c.ignored) >= MaxIgnoredKinds {
		c.ignoredMore += n
		return
	}
	c.ignored[t] += n
}

// setNamespace sets the default namespace for an object without one, as kubectl does for a manifest
// written by hand.
func setNamespace(s *row, object apiObject) {
	if !s.Namespaced {
		object.SetNamespace("")
	} else if object.GetNamespace() == "" {
		object.SetNamespace(metav1.NamespaceDefault)
	}
}

// countObject counts an object that is about to be kept. It returns an error if there are too many.
func (c *collector) countObject(at place, kind Kind) error {
	c.tally.objects++
	c.tally.ofKind[kind]++
	switch {
	case c.tally.objects > c.limits.objects:
		return ownError{at.errorf("more than %d objects in one input", c.limits.objects)}
	case c.tally.ofKind[kind] > c.limits.ofKind:
		return ownError{at.errorf("more than %d %s in one input", c.limits.ofKind, kind)}
	}
	return nil
}

// otherVersion notes that the input has objects of the kind in a version that is not read.
func (c *collector) otherVersion(s *row, t typeName) {
	c.unread[s.Kind] = fmt.Sprintf("%s of %s is not read, only %s of %s", plain(t.kind), plain(t.apiVersion), s.Object, s.Version)
}

// title names an object that could not be decoded, as far as its name can be read.
func title(s *row, raw []byte) string {
	var named struct {
		Metadata struct{ Namespace, Name string }
	}
	// A value that is not a name is left out.
	_ = json.Unmarshal(raw, &named)
	if named.Metadata.Name == "" {
		return s.Object
	}
	key := identity{name: named.Metadata.Name}
	if s.Namespaced {
		key.namespace = named.Metadata.Namespace
	}
	return s.Object + " " + key.String()
}
