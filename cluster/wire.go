package cluster

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// pageBuffer is how many bytes of a page are read from the connection at a time.
const pageBuffer = 64 << 10

// envelope is the start of a Kubernetes object in protobuf: four bytes, followed by a
// runtime.Unknown around the object.
var envelope = []byte("k8s\x00")

// Field numbers of runtime.Unknown, of its type, and of every list.
const (
	unknownType     = 1
	unknownRaw      = 2
	unknownEncoding = 3
	unknownContent  = 4
	typeVersion     = 1
	typeKind        = 2
	listMetadata    = 1
	listItems       = 2
)

// pageError says that an answer is not the requested page of a list, or that an object in it
// cannot be decoded. Nothing of such a page may be used: the part that is not understood
// could be any object, so the page proves no absence.
type pageError struct{ err error }

func (e *pageError) Error() string { return e.err.Error() }
func (e *pageError) Unwrap() error { return e.err }

func malformed(format string, args ...any) error { return &pageError{fmt.Errorf(format, args...)} }

// listPage takes one page of a list apart as it arrives, so that no more than one object of
// it is ever held. The list must be of the kind want. raw is called with each object; its
// bytes are overwritten by the next. object is called instead where the API server sends
// JSON.
//
// The error is a pageError where the page is not the requested one; all others come from the
// connection.
func listPage(r io.Reader, want schema.GroupVersionKind, raw, object func([]byte) error) (metav1.ListMeta, error) {
	in := bufio.NewReaderSize(r, pageBuffer)
	head, err := in.Peek(len(envelope))
	switch {
	case err != nil:
		return metav1.ListMeta{}, cutOff(err)
	case !bytes.Equal(head, envelope):
		return jsonPage(in, want, object)
	}
	_, _ = in.Discard(len(envelope)) // it was peeked at
	p := &pageReader{in: in, left: -1}
	var list metav1.ListMeta
	var got schema.GroupVersionKind
	seen := map[protowire.Number]bool{}
	for {
		number, err := p.length()
		if errors.Is(err, io.EOF) && seen[unknownRaw] {
			return list, nil
		}
		if err != nil {
			return list, cutOff(err)
		}
		if seen[number] {
			return list, malformed("field %d of the answer comes twice", number)
		}
		seen[number] = true
		switch number {
		case unknownType:
			if got, err = p.kind(); err == nil && seen[unknownRaw] {
				err = malformed("the kind comes after the list")
			}
		case unknownRaw:
			if got != want {
				return list, foreign(want, got)
			}
			list, err = p.list(raw)
		case unknownEncoding, unknownContent:
			var text []byte
			if text, err = p.bytes(); err == nil && number == unknownEncoding && len(text) > 0 {
				err = malformed("the list is encoded as %q", text)
			}
		default:
			err = malformed("field %d of the answer is unknown", number)
		}
		if err != nil {
			return list, err
		}
	}
}

func foreign(want, got schema.GroupVersionKind) error {
	if got.Kind == "" {
		return malformed("an object without a kind in place of a %s", want.Kind)
	}
	return malformed("a %s of %s in place of a %s of %s", got.Kind, got.GroupVersion(), want.Kind, want.GroupVersion())
}

// pageReader reads length-delimited fields, the only ones that the messages
// around the objects have.
type pageReader struct {
	in *bufio.Reader
	// left is the number of bytes left of the message that the fields are read from; -1 where
	// only the stream's end bounds it.
	left int64
	// size is the size of the current field.
	size int64
	item []byte
}

func (p *pageReader) readByte() (byte, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	b, err := p.in.ReadByte()
	if err == nil && p.left > 0 {
		p.left--
	}
	return b, err
}

// length begins the next field; it returns io.EOF if there is no other.
func (p *pageReader) length() (protowire.Number, error) {
	tag, err := p.varint()
	if err != nil {
		return 0, err
	}
	number, kind := protowire.DecodeTag(tag)
	if kind != protowire.BytesType || number < protowire.MinValidNumber {
		return 0, malformed("not a list in protobuf: field %d has wire type %d", number, kind)
	}
	size, err := p.varint()
	if err != nil {
		return 0, p.short(err)
	}
	p.size = int64(size)
	if p.size < 0 || p.left >= 0 && p.size > p.left {
		return 0, malformed("not a list in protobuf: a field is longer than its message")
	}
	return number, nil
}

// varint reads a number; io.EOF says that the message has ended before it.
func (p *pageReader) varint() (v uint64, err error) {
	for shift := 0; shift < 64; shift += 7 {
		b, err := p.readByte()
		if err != nil && shift > 0 {
			return 0, p.short(err)
		}
		if v |= uint64(b&0x7f) << shift; err != nil || b < 0x80 {
			return v, err
		}
	}
	return 0, malformed("not a list in protobuf: a number of more than 64 bits")
}

// short is the error for an end in the middle of a field: the end of the message, or of the
// stream.
func (p *pageReader) short(err error) error {
	if p.left == 0 {
		return malformed("not a list in protobuf: a field is longer than its message")
	}
	return cutOff(err)
}

// bytes are the bytes of the current field; the next call overwrites them.
func (p *pageReader) bytes() ([]byte, error) {
	if p.size > maxItem {
		return nil, tooMuch("an object of the list", maxItem)
	}
	if p.left > 0 {
		p.left -= p.size
	}
	if int64(cap(p.item)) < p.size {
		p.item = make([]byte, p.size, p.size*2)
	}
	p.item = p.item[:p.size]
	_, err := io.ReadFull(p.in, p.item)
	return p.item, cutOff(err)
}

// kind reads the current field as the type of the object that follows.
func (p *pageReader) kind() (kind schema.GroupVersionKind, err error) {
	raw, err := p.bytes()
	if err != nil {
		return kind, err
	}
	var version string
	ok := eachField(raw, func(number protowire.Number, _, value []byte) bool {
		switch number {
		case typeVersion:
			version = string(value)
		case typeKind:
			kind.Kind = string(value)
		default: // the reader of the field checks it
		}
		return true
	})
	group, err := schema.ParseGroupVersion(version)
	if !ok || err != nil {
		return kind, malformed("the kind of the answer cannot be read")
	}
	return group.WithKind(kind.Kind), nil
}

// list reads the current field as a list. A list has no other fields than these: an unknown
// one may be an object whose tag is damaged.
func (p *pageReader) list(item func([]byte) error) (list metav1.ListMeta, err error) {
	outer := p.left
	p.left = p.size
	described := false
	for p.left > 0 {
		number, err := p.length()
		if err != nil {
			return list, p.short(err)
		}
		raw, err := p.bytes()
		switch {
		case err != nil:
		case number == listItems:
			err = item(raw)
		case number != listMetadata || described:
			err = malformed("field %d of the list is unknown or comes twice", number)
		default:
			described = true
			if err = list.Unmarshal(raw); err != nil {
				err = &pageError{err}
			}
		}
		if err != nil {
			return list, err
		}
	}
	if p.left = outer; !described {
		return list, malformed("a list without metadata")
	}
	return list, nil
}

// cutOff turns the end of the stream in the middle of a message into an error.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// jsonPage reads a page that is not protobuf: something between here and the API server may
// let only JSON pass.
func jsonPage(r io.Reader, want schema.GroupVersionKind, object func([]byte) error) (metav1.ListMeta, error) {
	text, err := io.ReadAll(&bounded{r, maxJSON, tooMuch("a page of the list in JSON", maxJSON)})
	if err != nil {
		return metav1.ListMeta{}, err
	}
	var list struct {
		metav1.TypeMeta `json:",inline"`
		Metadata        *metav1.ListMeta `json:"metadata"`
		Items           json.RawMessage  `json:"items"`
	}
	if err := decodeJSON(text, &list); err != nil {
		return metav1.ListMeta{}, malformed("not a list: %w", err)
	}
	if got := list.GroupVersionKind(); got != want {
		return metav1.ListMeta{}, foreign(want, got)
	}
	if list.Metadata == nil || list.Items == nil {
		return metav1.ListMeta{}, malformed("a list without metadata or without items")
	}
	var items []json.RawMessage // null is how an API server may write an empty list
	if err := decodeJSON(list.Items, &items); err != nil {
		return *list.Metadata, malformed("the items are no list: %w", err)
	}
	for _, item := range items {
		if err := object(item); err != nil {
			return *list.Metadata, err
		}
	}
	return *list.Metadata, nil
}

// decodeJSON reads a value as an API server's clients do, but refuses a key that occurs
// twice: the first value would be lost.
func decodeJSON(text []byte, into any) error {
	twice, err := kjson.UnmarshalStrict(text, into, kjson.DisallowDuplicateFields)
	return cmp.Or(err, errors.Join(twice...))
}
