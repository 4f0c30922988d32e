package fastjson

import (
	"reflect"
	"slices"
	"strings"
)

// Decoder decodes objects of type T. It is for one goroutine at a time.
type Decoder[T any] struct {
	shape *shape
	reader
}

// Limits bound what is decoded here; beyond them is the general decoder's.
type Limits struct{ Values, Depth int }

// New makes a decoder that drops the fields at the paths, such as
// "spec.containers.env": they are checked alike, and left empty.
func New[T any](limits Limits, dropped ...string) *Decoder[T] {
	d := &Decoder[T]{shape: shapes{}.shapeOf(reflect.TypeFor[T]())}
	d.limits = limits
	for _, path := range dropped {
		if !d.at(path, func(f *field) { f.dropped = true }) {
			panic("no field " + path)
		}
	}
	return d
}

// Keep leaves only those entries of a map that keep is true of.
func (d *Decoder[T]) Keep(path string, keep func(key string) bool) {
	d.at(path, func(f *field) { f.keep = keep })
}

// Only drops all fields but those at the paths. Of what a path names all is kept, unless
// another path names something within.
func (d *Decoder[T]) Only(paths ...string) {
	kept := tree{}
	for _, path := range paths {
		at := kept
		for name := range strings.SplitSeq(path, ".") {
			if at[name] == nil {
				at[name] = tree{}
			}
			at = at[name]
		}
	}
	d.shape = d.shape.only(kept)
}

// tree has the fields that are kept of an object, by their names.
type tree map[string]tree

func (s *shape) only(kept tree) *shape {
	own := *s
	if s.kind == pointer || s.kind == list {
		own.elem = s.elem.only(kept)
		return &own
	}
	own.fields = slices.Clone(own.fields)
	for i := range own.fields {
		f := &own.fields[i]
		within, ok := kept[f.name]
		f.dropped = f.dropped || !ok
		if len(within) > 0 {
			f.shape = f.shape.only(within)
		}
	}
	return &own
}

// at changes the field at the path, in this place alone.
func (d *Decoder[T]) at(path string, change func(*field)) bool {
	s := &d.shape
	names := strings.Split(path, ".")
	for i, name := range names {
		for (*s).kind == pointer || (*s).kind == list {
			own := **s
			*s = &own
			s = &own.elem
		}
		own := **s
		own.fields = slices.Clone(own.fields)
		*s = &own
		at, ok := own.byName[name]
		if !ok {
			return false
		}
		if i == len(names)-1 {
			change(&own.fields[at])
		}
		s = &own.fields[at].shape
	}
	return true
}

// Decode decodes raw, which must be UTF-8, into an object that is empty but for the room
// that its lists and maps have. It is false for what it does not read, which may be
// anything: the object is then of no use.
func (d *Decoder[T]) Decode(raw []byte, into *T) bool {
	r := &d.reader
	r.raw, r.pos, r.depth, r.values = raw, 0, 0, 0
	r.top = true
	r.space()
	if !r.value(d.shape, reflect.ValueOf(into).Elem(), nil) {
		return false
	}
	r.space()
	return r.pos == len(raw) && r.values <= r.limits.Values
}
