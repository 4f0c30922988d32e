package snapshot

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// object takes one object of whatever kind.
func (c *collector) object(at place, t typeName, raw []byte) error {
	switch {
	case t.kind == "" && t.apiVersion == "":
		return at.errorf("no Kubernetes object: it has neither apiVersion nor kind")
	case t.kind == "":
		return at.errorf("an object of %s without kind", plain(t.apiVersion))
	case t.apiVersion == "":
		return at.errorf("%s without apiVersion", plain(t.kind))
	case isHeader(t):
		return c.readHeader(at, t, raw)
	}
	s := schemaOf(t)
	if s == nil {
		c.ignored[t]++
		return nil
	}
	if absurdNumber(raw) {
		return at.errorf("%s: a number that no API server accepts", title(s, raw))
	}
	object, strict, err := s.decode(raw)
	if err != nil {
		return at.errorf("%s: %s", title(s, raw), decodeMessage(err))
	}
	if len(strict) > 0 {
		return at.errorf("%s: %s", title(s, raw), plain(strict[0].Error()))
	}
	if object.GetName() == "" {
		return at.errorf("%s without metadata.name", s.kind)
	}
	if !s.namespaced {
		object.SetNamespace("")
	} else if object.GetNamespace() == "" {
		// As kubectl reads it from a manifest written by hand.
		object.SetNamespace(metav1.NamespaceDefault)
	}
	c.total++
	if known, err := c.isKnown(at, s, object); known || err != nil {
		return err
	}
	c.noteTimes(reflect.ValueOf(object))
	// A list from an API server does not say the kind of its items either.
	object.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	Trim(object)
	c.sharer.Share(object)
	s.add(&c.objects, object)
	c.counts[s.resource]++
	return nil
}

// isKnown remembers the object. The same state of the same object may be given
// twice, as pods.yaml and all.yaml do; with two different ones nobody can tell
// which is true.
func (c *collector) isKnown(at place, s *kindSchema, object apiObject) (bool, error) {
	key := identity{s.resource, object.GetNamespace(), object.GetName()}
	now := version{object.GetUID(), object.GetResourceVersion(), at}
	before, ok := c.seen[key]
	if !ok {
		c.seen[key] = now
		return false, nil
	}
	if now.uid != "" && now.uid == before.uid && now.resourceVersion != "" && now.resourceVersion == before.resourceVersion {
		return true, nil
	}
	return false, at.errorf("%s %s is given a second time; the first is at %s", s.kind, key, before.at)
}

func (i identity) String() string {
	if i.namespace == "" {
		return plain(i.name)
	}
	return plain(i.namespace + "/" + i.name)
}

// title names an object that could not be decoded as well as it can be.
func title(s *kindSchema, raw []byte) string {
	var named struct {
		Metadata struct{ Namespace, Name string }
	}
	// What is no name is left out.
	_ = json.Unmarshal(raw, &named)
	if named.Metadata.Name == "" {
		return s.kind
	}
	key := identity{name: named.Metadata.Name}
	if s.namespaced {
		key.namespace = named.Metadata.Namespace
	}
	return s.kind + " " + key.String()
}

// decodeMessage says what a decoder's error means without naming Go types.
func decodeMessage(err error) string {
	wrong, ok := errors.AsType[*json.UnmarshalTypeError](err)
	if !ok {
		return plain(strings.TrimPrefix(err.Error(), "json: "))
	}
	field := wrong.Field
	if field == "" {
		field = "it"
	}
	found, _, _ := strings.Cut(wrong.Value, " ")
	switch found {
	case "array":
		found = "list"
	case "bool":
		found = "true or false"
	}
	if found != "true or false" {
		found = article(found)
	}
	return plain(field + " must be " + typeForPeople(wrong.Type) + ", not " + found)
}

func article(noun string) string {
	if strings.HasPrefix(noun, "o") {
		return "an " + noun
	}
	return "a " + noun
}

func typeForPeople(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "a whole number that fits " + t.Kind().String()
	}
}

var (
	timeType      = reflect.TypeFor[metav1.Time]()
	microTimeType = reflect.TypeFor[metav1.MicroTime]()
)

// noteTimes raises latest to the latest time anywhere in an object, for that is
// the earliest at which the object can have been read. A deletionTimestamp does
// not count: it lies a grace period after the deletion.
func (c *collector) noteTimes(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.noteTimes(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.noteTimes(v.Index(i))
		}
	case reflect.Struct:
		var t time.Time
		switch v.Type() {
		case timeType:
			t = v.Interface().(metav1.Time).Time
		case microTimeType:
			t = v.Interface().(metav1.MicroTime).Time
		default:
			for _, i := range c.fieldsWithTimes(v.Type()) {
				c.noteTimes(v.Field(i))
			}
		}
		if t.After(c.latest) {
			c.latest = t
		}
	default: // nothing below it
	}
}

// fieldsWithTimes are the fields of a struct that can lead to a time; looking
// at them all would take as long as decoding.
func (c *collector) fieldsWithTimes(t reflect.Type) []int {
	if fields, ok := c.timeFields[t]; ok {
		return fields
	}
	c.timeFields[t] = nil // ends the search in a type that holds itself
	var fields []int
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Name == "DeletionTimestamp" {
			continue
		}
		inner := f.Type
		for inner.Kind() == reflect.Pointer || inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct {
			continue
		}
		if inner == timeType || inner == microTimeType || len(c.fieldsWithTimes(inner)) > 0 {
			fields = append(fields, i)
		}
	}
	c.timeFields[t] = fields
	return fields
}
