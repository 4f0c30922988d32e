package cluster

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// layout describes a protobuf message as its generated decoder reads it: the wire
// type of each field, by the field's number.
type layout struct{ fields []layoutField }

type layoutField struct {
	known bool
	wire  protowire.Type
	// inner describes the field's value; nil if it has no structure.
	inner *layout
	// quantity marks a text that the decoder parses.
	quantity bool
}

// unknownField is a field that only a newer release has.
var unknownField layoutField

// layouts holds what layoutOf has built.
var layouts = struct {
	sync.Mutex
	of map[reflect.Type]*layout
}{of: map[reflect.Type]*layout{}}

// layoutOf builds the description of a type in k8s.io/api from its struct tags.
func layoutOf(t reflect.Type) *layout {
	layouts.Lock()
	defer layouts.Unlock()
	return describeLayout(t)
}

// timestamp has the fields of metav1.Time and metav1.MicroTime on the wire.
type timestamp struct {
	Seconds int64 `protobuf:"varint,1,opt,name=seconds"`
	Nanos   int32 `protobuf:"varint,2,opt,name=nanos"`
}

func describeLayout(t reflect.Type) *layout {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		t = reflect.TypeFor[timestamp]()
	}
	if m := layouts.of[t]; m != nil {
		return m
	}
	m := &layout{}
	layouts.of[t] = m // stored before its fields are read: a type may contain itself
	if t == reflect.TypeFor[resource.Quantity]() {
		m.set(1, layoutField{wire: protowire.BytesType, quantity: true})
		return m
	}
	for f := range t.Fields() {
		tag := strings.Split(f.Tag.Get("protobuf"), ",")
		if len(tag) < 2 {
			continue // TypeMeta, which is sent around the object
		}
		number, err := strconv.Atoi(tag[1])
		if err != nil {
			panic(fmt.Sprintf("%s.%s: %v", t, f.Name, err))
		}
		m.set(number, describeField(f.Type, tag[0]))
	}
	return m
}

func (m *layout) set(number int, f layoutField) {
	for len(m.fields) <= number {
		m.fields = append(m.fields, layoutField{})
	}
	f.known = true
	m.fields[number] = f
}

func describeField(t reflect.Type, wire string) layoutField {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	// Some tags declare a number as bytes: the decoder goes by the Go type.
	switch t.Kind() {
	case reflect.Struct:
		return layoutField{wire: protowire.BytesType, inner: describeLayout(t)}
	case reflect.Map:
		entry := &layout{}
		entry.set(1, describeField(t.Key(), "bytes"))
		entry.set(2, describeField(t.Elem(), "bytes"))
		return layoutField{wire: protowire.BytesType, inner: entry}
	case reflect.String, reflect.Uint8: // the latter is of a []byte
		return layoutField{wire: protowire.BytesType}
	case reflect.Bool, reflect.Int32, reflect.Int64:
		return layoutField{wire: protowire.VarintType}
	default:
		panic(fmt.Sprintf("no protobuf field of %s (%s) is known", t, wire))
	}
}

// accepts reports whether the generated decoder reads raw without an error. It decodes
// nothing. It may be false for a message that the decoder does read, such as one with a group
// in it: ask the decoder then. It is never true for a message that the decoder refuses.
func (m *layout) accepts(raw []byte) bool {
	for i := 0; i < len(raw); {
		tag := uint64(raw[i])
		if i++; tag >= 0x80 {
			var n int
			if tag, n = binary.Uvarint(raw[i-1:]); n <= 0 {
				return false
			}
			i += n - 1
		}
		number, wire := tag>>3, protowire.Type(tag&7)
		f := &unknownField
		if number < uint64(len(m.fields)) {
			f = &m.fields[number]
		}
		if f.known && wire != f.wire || number == 0 || number > uint64(protowire.MaxValidNumber) {
			return false
		}
		switch wire {
		case protowire.BytesType:
			if i >= len(raw) {
				return false
			}
			size := uint64(raw[i])
			if i++; size >= 0x80 && i < len(raw) && raw[i] < 0x80 { // as in nearly all longer fields
				size = size&0x7f | uint64(raw[i])<<7
				i++
			} else if size >= 0x80 {
				var n int
				if size, n = binary.Uvarint(raw[i-1:]); n <= 0 {
					return false
				}
				i += n - 1
			}
			if size > uint64(len(raw)-i) {
				return false
			}
			value := raw[i : i+int(size)]
			i += int(size)
			if f.inner != nil && !f.inner.accepts(value) || f.quantity && !isQuantity(value) {
				return false
			}
		case protowire.VarintType:
			if i < len(raw) && raw[i] < 0x80 {
				i++
				break
			}
			_, n := binary.Uvarint(raw[i:])
			if n <= 0 {
				return false
			}
			i += n
		case protowire.Fixed64Type:
			i += 8
		case protowire.Fixed32Type:
			i += 4
		default:
			return false
		}
		if i > len(raw) {
			return false
		}
	}
	return true
}

// isQuantity reports whether the text is a quantity of a usual form, which
// resource.ParseQuantity reads. It is false for unusual forms.
func isQuantity(text []byte) bool {
	const longest = 18 // digits that any integer type holds
	digits := 0
	for digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
		digits++
	}
	if digits == 0 || digits > longest {
		return false
	}
	switch string(text[digits:]) {
	case "", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei":
		return true
	}
	return false
}
