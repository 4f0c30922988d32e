package cluster

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
)

// maxItem is more than any object can have: an API server takes requests of
// 3 MiB, and etcd values of 1.5.
const maxItem = 16 << 20

// envelope is what a protobuf object of Kubernetes begins with: four bytes, and
// a runtime.Unknown around the object.
var envelope = []byte("k8s\x00")

// Field numbers of runtime.Unknown, and of every list.
const (
	unknownRaw   = 2
	listMetadata = 1
	listItems    = 2
)

// listPage takes one page of a list apart as it arrives, so that no more than
// one object of it is ever held. The bytes that raw is given are used again for
// the next one; object is called instead where the API server sends JSON.
func listPage(r io.Reader, raw func([]byte) error, object func(runtime.Object) error) (metav1.ListMeta, error) {
	in := bufio.NewReaderSize(r, 64<<10)
	head, err := in.Peek(len(envelope))
	switch {
	case err != nil:
		return metav1.ListMeta{}, cutOff(err)
	case !bytes.Equal(head, envelope):
		return otherPage(in, object)
	}
	_, _ = in.Discard(len(envelope)) // it was peeked at
	p := &pageReader{in: in, left: -1}
	list := metav1.ListMeta{}
	found := false
	for {
		number, err := p.length()
		if errors.Is(err, io.EOF) && found {
			return list, nil
		}
		if err != nil {
			return list, cutOff(err)
		}
		if number != unknownRaw {
			err = p.skip()
		} else {
			found = true
			list, err = p.list(raw)
		}
		if err != nil {
			return list, err
		}
	}
}

// pageReader reads length-delimited fields, the only ones that the messages
// around the objects have.
type pageReader struct {
	in *bufio.Reader
	// left is what is left of the message that the fields are read from; -1 is
	// the stream's end.
	left int64
	// size is that of the field that was begun.
	size int64
	item []byte
}

// ReadByte lets binary.ReadUvarint count what it reads.
func (p *pageReader) ReadByte() (byte, error) {
	if p.left == 0 {
		return 0, io.EOF
	}
	b, err := p.in.ReadByte()
	if err == nil && p.left > 0 {
		p.left--
	}
	return b, err
}

// length begins the next field; io.EOF says that there is none.
func (p *pageReader) length() (protowire.Number, error) {
	tag, err := binary.ReadUvarint(p)
	if err != nil {
		return 0, err
	}
	number, kind := protowire.DecodeTag(tag)
	if kind != protowire.BytesType {
		return 0, fmt.Errorf("not a list in protobuf: field %d has wire type %d", number, kind)
	}
	size, err := binary.ReadUvarint(p)
	if err != nil {
		return 0, cutOff(err)
	}
	p.size = int64(size)
	if p.size < 0 || p.left >= 0 && p.size > p.left {
		return 0, errors.New("not a list in protobuf: a field is longer than what it stands in")
	}
	return number, nil
}

func (p *pageReader) skip() error {
	if p.left > 0 {
		p.left -= p.size
	}
	_, err := io.CopyN(io.Discard, p.in, p.size)
	return cutOff(err)
}

// bytes are the field's; they are overwritten by the next call.
func (p *pageReader) bytes() ([]byte, error) {
	if p.size > maxItem {
		return nil, fmt.Errorf("an object of %d bytes", p.size)
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

// list reads the field that was begun as a list.
func (p *pageReader) list(item func([]byte) error) (list metav1.ListMeta, err error) {
	defer func() { p.left = -1 }()
	p.left = p.size
	for p.left > 0 {
		number, err := p.length()
		if err != nil {
			return list, cutOff(err)
		}
		switch number {
		case listMetadata:
			var raw []byte
			if raw, err = p.bytes(); err == nil {
				err = list.Unmarshal(raw)
			}
		case listItems:
			var raw []byte
			if raw, err = p.bytes(); err == nil {
				err = item(raw)
			}
		default:
			err = p.skip()
		}
		if err != nil {
			return list, err
		}
	}
	return list, nil
}

// cutOff makes an end in the middle an error.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// otherPage reads what is not protobuf: something between here and the API
// server may let only JSON pass.
func otherPage(r io.Reader, object func(runtime.Object) error) (metav1.ListMeta, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	list, err := runtime.Decode(scheme.Codecs.UniversalDeserializer(), text)
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("not a list: %w", err)
	}
	about, err := meta.ListAccessor(list)
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("not a list: %w", err)
	}
	return metav1.ListMeta{Continue: about.GetContinue(), ResourceVersion: about.GetResourceVersion()}, meta.EachListItem(list, object)
}
