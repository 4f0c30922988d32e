package snapshot

import (
	"encoding/json"
	"fmt"
)

// watchEvent is an event of a watch, as "kubectl get -w --output-watch-events -o json" prints it: the
// objects that are there, each ADDED, and then what changes.
type watchEvent struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// watched reads the text as an event of a watch; nil if it is something else.
func watched(raw []byte) *watchEvent {
	var e watchEvent
	if json.Unmarshal(raw, &e) != nil || len(e.Object) == 0 || e.Object[0] != '{' {
		return nil
	}
	switch e.Type {
	case "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR":
		return &e
	default:
		return nil
	}
}

// watch reads an event of a watch.
func (c *collector) watch(at place, e *watchEvent) error {
	switch e.Type {
	case "BOOKMARK":
		return nil
	case "DELETED":
		return c.deleted(at, e.Object)
	}
	if err := c.nested(at, e.Object); err != nil {
		return err
	}
	if e.Type == "MODIFIED" && c.last.row != nil && c.last.known == unseen {
		c.watchedOnly(c.last.key)
	}
	return nil
}

// watchedOnly notes that a watch has shown an object only after it had changed: it has not begun with the
// objects that were there.
func (c *collector) watchedOnly(key identity) {
	c.broken[key.kind] = Gap{Kind: key.kind, Reason: ReasonTruncated, Detail: fmt.Sprintf("the watch does not begin with the objects that were there (%s first changes): watch without --watch-only", key)}
}

// deleted forgets an object that was deleted while somebody watched.
func (c *collector) deleted(at place, raw []byte) error {
	t, err := readTypeName(at, raw)
	if err != nil {
		return err
	}
	s := byType[t]
	if s == nil {
		return c.foreign(at, t, raw)
	}
	object, _, err := s.decode(raw)
	if err != nil || object.GetUID() == "" {
		return at.errorf("%s: a deleted object without its uid", title(s, raw))
	}
	setNamespace(s, object)
	key := identity{s.Kind, object.GetNamespace(), object.GetName()}
	if c.left.ofUse != nil && s.Kind == Pods {
		return leftOneError{}
	}
	if _, ok := c.seen.states[key.mark()]; !ok {
		c.watchedOnly(key)
		return nil
	}
	delete(c.seen.states, key.mark())
	c.altered.forget(key)
	c.counts[s.Kind]--
	c.gone[object.GetUID()] = true
	return nil
}

// dropDeleted drops the objects that were deleted while somebody watched.
func (c *collector) dropDeleted() {
	if len(c.gone) == 0 {
		return
	}
	for _, r := range resources {
		r.drop(&c.objects, func(object apiObject) bool { return c.gone[object.GetUID()] })
	}
}
