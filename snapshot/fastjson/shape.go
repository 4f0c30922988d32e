// Package fastjson decodes the JSON of API objects in one pass. It reads what programs
// write, as the general decoder would, and leaves everything else to that: so that it
// needs no errors of its own.
package fastjson

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kind is how the values of a type stand in JSON.
type kind int

const (
	odd kind = iota // left to the general decoder
	object
	list
	dict
	pointer
	text
	integer
	boolean
	timestamp
	quantity
	ownWay // it has a decoder of its own
)

// shape describes a type.
type shape struct {
	kind   kind
	of     reflect.Type
	elem   *shape // of a list, a dict or a pointer
	fields []field
	byName map[string]int
	// after has for each field the one that came after it last, and at 0 the one that came
	// first; each counted from 1. Objects of one file have their fields in one order.
	after []int
	room  reflect.Value // of a list: one that is used again; invalid while it is in use
}

type field struct {
	name  string
	index []int
	shape *shape
	// dropped fields are checked, and not kept.
	dropped bool
	// keep, where it is not nil, says which entries of a dict are kept.
	keep func(key string) bool
}

// mostFields is how many fields of one object are told apart.
const mostFields = 128

// shapes describes types; each is described once, and may contain itself.
type shapes map[reflect.Type]*shape

func (known shapes) shapeOf(t reflect.Type) *shape {
	if s := known[t]; s != nil {
		return s
	}
	s := &shape{of: t}
	known[t] = s
	switch {
	case t == reflect.TypeFor[metav1.Time]():
		s.kind = timestamp
	case t == reflect.TypeFor[resource.Quantity]():
		s.kind = quantity
	case t.Kind() == reflect.Pointer:
		s.kind, s.elem = pointer, known.shapeOf(t.Elem())
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		s.kind = ownWay
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
	case t.Kind() == reflect.String:
		s.kind = text
	case t.Kind() == reflect.Bool:
		s.kind = boolean
	case t.Kind() == reflect.Int32, t.Kind() == reflect.Int64:
		s.kind = integer
	case t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8:
		s.kind, s.elem = list, known.shapeOf(t.Elem())
	case t.Kind() == reflect.Map && t.Key().Kind() == reflect.String && !reflect.PointerTo(t.Key()).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		s.kind, s.elem = dict, known.shapeOf(t.Elem())
	case t.Kind() == reflect.Struct:
		known.addFields(s, t, nil)
	}
	return s
}

// addFields adds those of a struct, and of those that are embedded in it.
func (known shapes) addFields(s *shape, t reflect.Type, at []int) {
	if at == nil {
		s.kind, s.byName, s.after = object, map[string]int{}, []int{1}
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		index := append(append([]int{}, at...), i)
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			known.addFields(s, f.Type, index)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "" || options == "string" || len(s.fields) == mostFields:
			s.kind = odd
			return
		}
		if _, twice := s.byName[name]; twice {
			s.kind = odd
			return
		}
		s.byName[name] = len(s.fields)
		s.after = append(s.after, len(s.fields)+2)
		s.fields = append(s.fields, field{name: name, index: index, shape: known.shapeOf(f.Type)})
	}
}
