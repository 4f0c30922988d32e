package archive

import (
	"bufio"
	"bytes"
	"io"

	"golang.org/x/text/encoding/unicode"
)

// utf16Order is the byte order of a text with this beginning; ok is false where the text is
// not UTF-16, as older PowerShell writes it.
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

// IsUTF16 reports whether a text with this beginning is UTF-16.
func IsUTF16(head []byte) bool {
	_, ok := utf16Order(head)
	return ok
}

// FromUTF16 converts a UTF-16 text to UTF-8.
func FromUTF16(r io.Reader) io.Reader {
	in := bufio.NewReader(r)
	head, _ := in.Peek(4)
	order, _ := utf16Order(head)
	return unicode.UTF16(order, unicode.UseBOM).NewDecoder().Reader(in)
}
