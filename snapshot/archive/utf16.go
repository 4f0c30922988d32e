package archive

import (
	"bufio"
	"bytes"
	"io"

	"golang.org/x/text/encoding/unicode"
)

// utf16Order is the order of the bytes in a text that begins so; ok is false for a text that
// is not written in UTF-16, as older PowerShell does.
func utf16Order(head []byte) (order unicode.Endianness, ok bool) {
	isASCII := func(high, low int) bool { // without a mark
		return len(head) >= 4 && head[high] == 0 && head[high+2] == 0 && head[low] != 0 && head[low+2] != 0
	}
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")), isASCII(1, 0):
		return unicode.LittleEndian, true
	case bytes.HasPrefix(head, []byte("\xfe\xff")), isASCII(0, 1):
		return unicode.BigEndian, true
	}
	return unicode.BigEndian, false
}

// IsUTF16 tells a text in UTF-16 by its beginning.
func IsUTF16(head []byte) bool {
	_, ok := utf16Order(head)
	return ok
}

// FromUTF16 is such a text in UTF-8.
func FromUTF16(r io.Reader) io.Reader {
	in := bufio.NewReader(r)
	head, _ := in.Peek(4)
	order, _ := utf16Order(head)
	return unicode.UTF16(order, unicode.UseBOM).NewDecoder().Reader(in)
}
