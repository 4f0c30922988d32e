package fastjson

import (
	"encoding/json"
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reader goes through a JSON text. Each of its functions is false for what is left to
// the general decoder. A value that is not valid is one that is only checked.
type reader struct {
	raw    []byte
	pos    int
	limits Limits
	depth  int
	values int
	top    bool // no object has begun yet
	known  [1 << 11]string
	keys   []string
}

func (r *reader) peek() byte {
	if r.pos < len(r.raw) {
		return r.raw[r.pos]
	}
	return 0
}

func (r *reader) space() {
	for r.pos < len(r.raw) {
		switch r.raw[r.pos] {
		case ' ', '\n', '\t', '\r':
			r.pos++
		default:
			return
		}
	}
}

// word passes over a literal.
func (r *reader) word(w string) bool {
	if len(r.raw)-r.pos < len(w) || string(r.raw[r.pos:r.pos+len(w)]) != w {
		return false
	}
	r.pos += len(w)
	return true
}

// open begins an object or a list, and says whether it ends at once.
func (r *reader) open(end byte) (empty, ok bool) {
	r.pos++
	r.values++
	if r.depth++; r.depth > r.limits.Depth {
		return false, false
	}
	r.space()
	if r.peek() == end {
		r.pos++
		r.depth--
		return true, true
	}
	return false, true
}

// more is after a value of an object or a list: whether another follows.
func (r *reader) more(end byte) (more, ok bool) {
	r.space()
	switch r.peek() {
	case ',':
		r.pos++
		r.values++
		r.space()
		return true, true
	case end:
		r.pos++
		r.depth--
		return false, true
	}
	return false, false
}

// key reads a name and the colon.
func (r *reader) key() ([]byte, bool) {
	key, escaped, ok := r.quoted()
	if !ok || escaped {
		return nil, false
	}
	r.space()
	if r.peek() != ':' {
		return nil, false
	}
	r.pos++
	r.space()
	return key, true
}

func (r *reader) value(s *shape, v reflect.Value, keep func(string) bool) bool {
	if r.peek() == 'n' {
		return s.kind != odd && r.word("null") // as the general decoder: nothing is set
	}
	switch s.kind {
	case pointer:
		if !v.IsValid() {
			return r.value(s.elem, v, keep)
		}
		to := reflect.New(s.elem.of)
		v.Set(to)
		return r.value(s.elem, to.Elem(), keep)
	case object:
		return r.object(s, v)
	case list:
		return r.list(s, v)
	case dict:
		return r.dict(s, v, keep)
	case text:
		if r.peek() != '"' {
			return false
		}
		got, escaped, ok := r.quoted()
		if !ok || !v.IsValid() {
			return ok
		}
		t, ok := r.textOf(got, escaped)
		v.SetString(t)
		return ok
	case boolean:
		b := r.peek() == 't'
		if !r.word("true") && !r.word("false") {
			return false
		}
		if v.IsValid() {
			v.SetBool(b)
		}
		return true
	case integer:
		n, ok := r.integer()
		if !ok || s.of.OverflowInt(n) {
			return false
		}
		if v.IsValid() {
			v.SetInt(n)
		}
		return true
	case timestamp, quantity, ownWay:
		return r.ownWay(s, v)
	case odd:
	}
	return false
}

// ownWay leaves a value to the type's own decoder, but for the usual times and
// quantities.
func (r *reader) ownWay(s *shape, v reflect.Value) bool {
	start := r.pos
	if !r.skip() {
		return false
	}
	raw := r.raw[start:r.pos]
	if s.kind == timestamp {
		if at, ok := usualTime(raw); ok {
			if v.IsValid() {
				v.Addr().Interface().(*metav1.Time).Time = at
			}
			return true
		}
	}
	if s.kind == quantity && !v.IsValid() && usualQuantity(raw) {
		return true
	}
	if !v.IsValid() {
		if s.of == reflect.TypeFor[metav1.FieldsV1]() { // which takes anything
			return true
		}
		v = reflect.New(s.of).Elem()
	}
	return v.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw) == nil
}

func (r *reader) object(s *shape, v reflect.Value) bool {
	top := r.top
	r.top = false
	if r.peek() != '{' {
		return false
	}
	empty, ok := r.open('}')
	if empty || !ok {
		return ok
	}
	var seen [mostFields / 64]uint64
	before := 0
	for {
		key, ok := r.key()
		if !ok {
			return false
		}
		at := -1
		if next := s.after[before] - 1; next < len(s.fields) && s.fields[next].name == string(key) {
			at = next
		} else if known, ok := s.byName[string(key)]; ok {
			at, s.after[before] = known, known+1
		}
		if at < 0 {
			if top && string(key) == "items" || !r.skip() { // a list is not for here
				return false
			}
		} else {
			if seen[at/64]&(1<<(at%64)) != 0 {
				return false
			}
			seen[at/64] |= 1 << (at % 64)
			before = at + 1
			f := &s.fields[at]
			var into reflect.Value
			if v.IsValid() && !f.dropped {
				into = v
				for _, i := range f.index {
					into = into.Field(i)
				}
			}
			if !r.value(f.shape, into, f.keep) {
				return false
			}
		}
		if more, ok := r.more('}'); !more {
			return ok
		}
	}
}

func (r *reader) list(s *shape, v reflect.Value) bool {
	if r.peek() != '[' {
		return false
	}
	empty, ok := r.open(']')
	if !ok {
		return false
	}
	if empty {
		if v.IsValid() && v.IsNil() {
			v.Set(reflect.MakeSlice(s.of, 0, 0))
		}
		return true
	}
	// A list is read into one that is used again, and copied once its length is known.
	into, copied := v, v.IsValid() && v.Cap() == 0
	if copied {
		if into = s.room; !into.IsValid() {
			into = reflect.New(s.of).Elem()
		}
		s.room = reflect.Value{} // while it is in use
		defer func() { s.room = into }()
	}
	for n := 0; ; n++ {
		var item reflect.Value
		if v.IsValid() {
			if n == into.Cap() {
				into.Grow(max(4, n))
			}
			into.SetLen(n + 1)
			item = into.Index(n)
			item.SetZero()
		}
		if !r.value(s.elem, item, nil) {
			return false
		}
		if more, ok := r.more(']'); !more {
			if ok && copied {
				v.Set(reflect.MakeSlice(s.of, n+1, n+1))
				reflect.Copy(v, into)
			}
			return ok
		}
	}
}

// mostKeys is how many keys of a dict that is only checked are compared one by one.
const mostKeys = 64

func (r *reader) dict(s *shape, v reflect.Value, keep func(string) bool) bool {
	if r.peek() != '{' {
		return false
	}
	empty, ok := r.open('}')
	if !ok {
		return false
	}
	if v.IsValid() && v.IsNil() {
		v.Set(reflect.MakeMap(s.of))
	}
	if empty {
		return true
	}
	var texts map[string]string // nil for another dict
	if v.IsValid() {
		texts, _ = v.Interface().(map[string]string)
	}
	first := len(r.keys)
	defer func() { r.keys = r.keys[:first] }()
	for {
		key, ok := r.key()
		if !ok || len(r.keys)-first == mostKeys {
			return false
		}
		name, _ := r.textOf(key, false)
		for _, other := range r.keys[first:] {
			if other == name {
				return false
			}
		}
		r.keys = append(r.keys, name)
		switch {
		case !v.IsValid() || keep != nil && !keep(name):
			if !r.value(s.elem, reflect.Value{}, nil) {
				return false
			}
		case texts != nil && r.peek() == '"':
			got, escaped, ok := r.quoted()
			if !ok {
				return false
			}
			if texts[name], ok = r.textOf(got, escaped); !ok {
				return false
			}
		default:
			into := reflect.New(s.elem.of).Elem()
			if !r.value(s.elem, into, nil) {
				return false
			}
			v.SetMapIndex(reflect.ValueOf(name).Convert(s.of.Key()), into)
		}
		if more, ok := r.more('}'); !more {
			return ok
		}
	}
}

// usualTime reads "2026-11-20T10:00:00Z".
func usualTime(raw []byte) (at time.Time, ok bool) {
	const form = `"dddd-dd-ddTdd:dd:ddZ"`
	if len(raw) != len(form) {
		return at, false
	}
	for i, b := range raw {
		if form[i] == 'd' && (b < '0' || b > '9') || form[i] != 'd' && b != form[i] {
			return at, false
		}
	}
	two := func(i int) int { return int(raw[i]-'0')*10 + int(raw[i+1]-'0') }
	month, day, hour, minute, second := two(6), two(9), two(12), two(15), two(18)
	if month < 1 || month > 12 || day < 1 || day > 28 || hour > 23 || minute > 59 || second > 59 {
		return at, false // or left to time.Parse
	}
	return time.Date(two(1)*100+two(3), time.Month(month), day, hour, minute, second, 0, time.UTC).Local(), true
}

// usualQuantity is true of a text that resource.ParseQuantity reads.
func usualQuantity(raw []byte) bool {
	if len(raw) < 3 || len(raw) > 20 || raw[0] != '"' {
		return false
	}
	raw = raw[1 : len(raw)-1]
	digits := 0
	for digits < len(raw) && raw[digits] >= '0' && raw[digits] <= '9' {
		digits++
	}
	if digits == 0 || digits > 15 {
		return false
	}
	switch string(raw[digits:]) {
	case "", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi", "Ti":
		return true
	}
	return false
}
