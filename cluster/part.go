package cluster

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
)

// part selects fields of an encoded message by their numbers. A nil element is not
// selected. A field whose own fields are nil is selected as a whole, any other as far as
// its own fields say.
type part struct{ fields []*part }

// partOf reads fields of T by their API names, some of one message a line: "spec.containers:
// name image" are two fields of each container. For a field whose name ends in {}, the part
// only records that it is set. partOf panics if T has no such field.
func partOf[T any](lines ...string) *part {
	p := &part{}
	for _, line := range lines {
		message, names, _ := strings.Cut(line, ":")
		for name := range strings.FieldsSeq(names) {
			name, empty := strings.CutSuffix(name, "{}")
			field := p.at(reflect.TypeFor[T](), message+"."+name)
			if empty {
				field.fields = []*part{}
			}
		}
	}
	return p
}

// at returns the part of the field at the path, and adds it if it is missing.
func (p *part) at(t reflect.Type, path string) *part {
	for name := range strings.SplitSeq(path, ".") {
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		number, field := numbered(t, name)
		if missing := int(number) + 1 - len(p.fields); missing > 0 {
			p.fields = append(p.fields, make([]*part, missing)...)
		}
		if p.fields[number] == nil {
			p.fields[number] = &part{}
		}
		p, t = p.fields[number], field
	}
	return p
}

// numbered finds the number and the type of a field in the tags of the generated code. A
// message that Go embeds may have no name there.
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

// cut appends to out the fields of message that the part selects. It returns false for a
// message that it cannot read.
func (p *part) cut(out, message []byte) ([]byte, bool) {
	ok := eachField(message, func(number protowire.Number, field, value []byte) bool {
		if int(number) >= len(p.fields) || p.fields[number] == nil {
			return true
		}
		inner := p.fields[number]
		if inner.fields == nil || value == nil {
			out = append(out, field...)
			return true
		}
		out = protowire.AppendTag(out, number, protowire.BytesType)
		start := len(out)
		within, ok := inner.cut(out, value)
		if ok {
			out = prefixed(within, start)
		}
		return ok
	})
	return out, ok
}

// eachField calls f for each field of a message; value is nil unless it is a text or a
// message. It returns false if a field cannot be read, or f returns false.
func eachField(message []byte, f func(number protowire.Number, field, value []byte) bool) bool {
	for len(message) > 0 {
		// Nearly all fields are texts and messages with a tag of one byte and a length of one
		// or two bytes: for these the general code takes three times as long.
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

// prefixed inserts the length of the bytes of out from at on in front of them.
func prefixed(out []byte, at int) []byte {
	size := len(out) - at
	var length [10]byte
	prefix := protowire.AppendVarint(length[:0], uint64(size))
	out = append(out, prefix...)
	copy(out[at+len(prefix):], out[at:at+size])
	copy(out[at:], prefix)
	return out
}
