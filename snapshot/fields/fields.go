// Package fields drops fields from protobuf messages before they are decoded.
package fields

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	corev1 "k8s.io/api/core/v1"
)

// Part selects fields of an encoded message.
type Part struct {
	// Exclude inverts the selection: listed fields are dropped, all others kept.
	Exclude bool
	// Fields are indexed by their numbers. A field whose own fields are nil is
	// selected as a whole, any other as far as those say.
	Fields []*Part
	// Wants, where it is not nil, chooses among the messages of a list or a map by
	// their first field, which is a name or a key.
	Wants func(pod *corev1.Pod, name []byte) bool
}

// Only reads fields of T as the API names them, some of one message a line:
// "spec.containers: name image" are two fields of each container. Of a message
// whose name ends in {} nothing is left but that it is there. It panics where T has no
// such field, as AllBut and At do.
func Only[T any](lines ...string) *Part { return named[T](false, lines) }

// AllBut selects everything except such fields.
func AllBut[T any](lines ...string) *Part { return named[T](true, lines) }

func named[T any](exclude bool, lines []string) *Part {
	p := &Part{Exclude: exclude}
	for _, line := range lines {
		message, names, _ := strings.Cut(line, ":")
		for name := range strings.FieldsSeq(names) {
			if message != "" {
				name = message + "." + name
			}
			if path, ok := strings.CutSuffix(name, "{}"); ok {
				At[T](p, path).Fields = []*Part{}
			} else {
				At[T](p, name)
			}
		}
	}
	return p
}

// At is the part of the field at the path; it is made where there is none.
func At[T any](p *Part, path string) *Part {
	t := reflect.TypeFor[T]()
	for name := range strings.SplitSeq(path, ".") {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		number, field := numbered(t, name)
		p, t = p.Field(number), field
	}
	return p
}

// Field is the part of the field; it is made where there is none.
func (p *Part) Field(number protowire.Number) *Part {
	if missing := int(number) + 1 - len(p.Fields); missing > 0 {
		p.Fields = append(p.Fields, make([]*Part, missing)...)
	}
	if p.Fields[number] == nil {
		p.Fields[number] = &Part{Exclude: p.Exclude}
	}
	return p.Fields[number]
}

// Listed is the part of the field; nil where the part does not name the field.
func (p *Part) Listed(number protowire.Number) *Part {
	if int(number) < len(p.Fields) {
		return p.Fields[number]
	}
	return nil
}

// numbered finds the field in the tags of the generated code. A message that Go
// embeds may have no name there.
func numbered(t reflect.Type, name string) (protowire.Number, reflect.Type) {
	for f := range t.Fields() {
		tag := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(tag) < 3 || !slices.Contains(tag, "name="+name) && (!f.Anonymous || !strings.EqualFold(f.Name, name)) {
			continue
		}
		if number, err := strconv.ParseInt(tag[1], 10, 32); err == nil {
			return protowire.Number(number), f.Type
		}
	}
	panic(fmt.Sprintf("%s has no field %q", t, name))
}

// Of appends to out the fields of message that the part selects. pod is the enclosing
// pod, or nil. It is false for a message that cannot be read, which is then for the
// generated decoder.
func (p *Part) Of(out, message []byte, pod *corev1.Pod) ([]byte, bool) {
	ok := Each(message, func(number protowire.Number, field, value []byte) bool {
		inner := p.Listed(number)
		listed := inner != nil
		switch {
		case listed && inner.Wants != nil && !inner.Wants(pod, firstField(value)):
		case listed && inner.Fields != nil && value != nil:
			out = protowire.AppendTag(out, number, protowire.BytesType)
			start := len(out)
			within, ok := inner.Of(out, value, pod)
			if !ok {
				return false
			}
			out = prefixed(within, start)
		case listed != p.Exclude, listed && (inner.Wants != nil || inner.Fields != nil):
			out = append(out, field...)
		}
		return true
	})
	return out, ok
}

// Each calls f for each field of a message; value is nil unless it is a text or a
// message. It is false where a field cannot be read, or f returns false.
func Each(message []byte, f func(number protowire.Number, field, value []byte) bool) bool {
	for len(message) > 0 {
		// Nearly all fields are texts and messages with a tag of one byte and a length of
		// one or two: for these the general way takes three times as long.
		if tag := message[0]; tag < 0x80 && tag&7 == byte(protowire.BytesType) && tag > 7 && len(message) > 2 {
			n, size := 2, int(message[1])
			if size >= 0x80 {
				n, size = 3, size&0x7f|int(message[2])<<7
			}
			if size < 0x80<<7 && size <= len(message)-n {
				if !f(protowire.Number(tag>>3), message[:n+size], message[n:n+size:n+size]) {
					return false
				}
				message = message[n+size:]
				continue
			}
		}
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return false
		}
		var value []byte
		var size int
		if kind == protowire.BytesType {
			value, size = protowire.ConsumeBytes(message[n:])
		} else {
			size = protowire.ConsumeFieldValue(number, kind, message[n:])
		}
		if size < 0 || !f(number, message[:n+size], value) {
			return false
		}
		message = message[n+size:]
	}
	return true
}

// firstField is a message's field 1, which is a name wherever it is asked for.
func firstField(message []byte) (name []byte) {
	Each(message, func(number protowire.Number, _, value []byte) bool {
		if number == 1 {
			name = value
		}
		return true
	})
	return name
}

// prefixed puts the length of what stands from at on before it.
func prefixed(out []byte, at int) []byte {
	size := len(out) - at
	var length [10]byte
	prefix := protowire.AppendVarint(length[:0], uint64(size))
	out = append(out, prefix...)
	copy(out[at+len(prefix):], out[at:at+size])
	copy(out[at:], prefix)
	return out
}
