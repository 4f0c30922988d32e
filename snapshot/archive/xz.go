package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"

	"github.com/ulikunitz/xz/lzma"
)

// xzReader reads the .xz format, version 1.2.1 (https://tukaani.org/xz/xz-file-format.txt):
// streams of blocks of LZMA2 data. The library unpacks the blocks. This type reads the frame
// around them, because the library would reserve as much memory as a file asks for, which may
// be 4 GiB.
type xzReader struct {
	in    *countingReader
	block io.Reader // nil between blocks
	check hash.Hash // of the block's text
	// newCheck and flags belong to the stream; inStream is false between two streams.
	newCheck func() hash.Hash
	flags    [2]byte
	inStream bool
	// began is the position of the block's header; wants is the length of the block's text by
	// its header, or -1.
	began, text, wants int64
	records            hash.Hash // of the lengths of the blocks
	blocks             uint64
	err                error
}

const (
	xzMagic  = "\xfd7zXZ\x00"
	xzFooter = "YZ"
)

var (
	errXZ    = errors.New("the xz data is damaged")
	errXZCut = errors.New("the xz data is cut off")
)

func newXZReader(in *bufio.Reader) *xzReader {
	return &xzReader{in: &countingReader{in: in}}
}

func (x *xzReader) Read(p []byte) (int, error) {
	for x.err == nil {
		if x.block == nil {
			x.err = x.next()
			continue
		}
		n, err := x.block.Read(p)
		x.text += int64(n)
		x.check.Write(p[:n])
		switch {
		case err == io.EOF:
			x.err = x.endBlock()
		case err != nil:
			x.err = xzError(err)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, x.err
}

func xzError(err error) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errXZCut
	case errors.Is(err, errXZ), errors.Is(err, errXZCut):
		return err
	}
	return fmt.Errorf("%w (%w)", errXZ, err)
}

// next begins a block or a stream, or ends a stream. It returns io.EOF after the last.
func (x *xzReader) next() error {
	if !x.inStream {
		return x.beginStream()
	}
	x.began = x.in.n
	size, err := x.in.ReadByte()
	if err != nil {
		return errXZCut
	}
	if size == 0 {
		return x.endStream()
	}
	return x.beginBlock(size)
}

// beginStream skips the zeros that may stand between two streams.
func (x *xzReader) beginStream() error {
	const length = 12
	for {
		head, err := x.in.in.Peek(4)
		switch {
		case len(head) == 0 && x.in.n > 0 && err == io.EOF:
			return io.EOF
		case err != nil:
			return xzError(err)
		case !bytes.Equal(head, make([]byte, 4)) || x.in.n == 0:
			var header [length]byte
			if _, err := io.ReadFull(x.in, header[:]); err != nil {
				return xzError(err)
			}
			if string(header[:6]) != xzMagic {
				return errors.New("more data follows the end of the xz data")
			}
			if crc32.ChecksumIEEE(header[6:8]) != binary.LittleEndian.Uint32(header[8:]) {
				return errXZ
			}
			x.flags = [2]byte(header[6:8])
			x.inStream, x.blocks, x.records = true, 0, sha256.New()
			return x.chooseCheck()
		}
		if _, err := io.ReadFull(x.in, make([]byte, 4)); err != nil {
			return xzError(err)
		}
	}
}

func (x *xzReader) chooseCheck() error {
	checks := map[[2]byte]func() hash.Hash{
		{0, 0}:  func() hash.Hash { return noCheck{sha256.New()} },
		{0, 1}:  func() hash.Hash { return reversed{crc32.NewIEEE()} },
		{0, 4}:  func() hash.Hash { return reversed{crc64.New(crc64.MakeTable(crc64.ECMA))} },
		{0, 10}: sha256.New,
	}
	if x.newCheck = checks[x.flags]; x.newCheck == nil {
		return errors.New("xz data with a check that is not read: pack it with gzip")
	}
	return nil
}

// noCheck is the check of a stream without checks.
type noCheck struct{ hash.Hash }

func (noCheck) Sum(b []byte) []byte { return b }

// reversed is the checksum in the byte order of xz.
type reversed struct{ hash.Hash }

func (r reversed) Sum(b []byte) []byte {
	sum := r.Hash.Sum(nil)
	for i := range sum {
		b = append(b, sum[len(sum)-1-i])
	}
	return b
}

// beginBlock reads a block's header, whose first byte gives its length.
func (x *xzReader) beginBlock(size byte) error {
	header := make([]byte, (int(size)+1)*4)
	header[0] = size
	if _, err := io.ReadFull(x.in, header[1:]); err != nil {
		return xzError(err)
	}
	end := len(header) - 4
	if crc32.ChecksumIEEE(header[:end]) != binary.LittleEndian.Uint32(header[end:]) {
		return errXZ
	}
	const (
		filters, hasPacked, hasText, unknown = 0x03, 0x40, 0x80, 0x3c
		lzma2                                = 0x21
	)
	flags, rest := header[1], bytes.NewReader(header[2:end])
	if flags&(filters|unknown) != 0 {
		return errors.New("xz data with a filter that is not read: pack it with gzip")
	}
	x.wants = -1
	for _, bit := range []byte{hasPacked, hasText} {
		if flags&bit == 0 {
			continue
		}
		n, err := binary.ReadUvarint(rest)
		if err != nil || n > 1<<62 {
			return errXZ
		}
		if bit == hasText {
			x.wants = int64(n)
		}
	}
	var filter [3]byte // its number, how many properties it has, and the property
	if _, err := io.ReadFull(rest, filter[:]); err != nil || filter[1] != 1 {
		return errXZ
	}
	if filter[0] != lzma2 {
		return errors.New("xz data with a filter that is not read: pack it with gzip")
	}
	dictionary, err := lzma.DecodeDictCap(filter[2])
	if err != nil {
		return errXZ
	}
	if dictionary > MaxDictionary {
		return fmt.Errorf("xz data that takes more than %s to unpack: pack it with xz -9 or less", Size(MaxDictionary))
	}
	x.text, x.check = 0, x.newCheck()
	x.block, err = lzma.Reader2Config{DictCap: int(max(dictionary, lzma.MinDictCap))}.NewReader2(x.in)
	if err != nil {
		return xzError(err)
	}
	return nil
}

// endBlock compares a block with its check and with its header.
func (x *xzReader) endBlock() error {
	padding := (4 - (x.in.n-x.began)%4) % 4
	length := x.in.n - x.began
	sum := x.check.Sum(nil)
	tail := make([]byte, int(padding)+len(sum))
	if _, err := io.ReadFull(x.in, tail); err != nil {
		return xzError(err)
	}
	if !bytes.Equal(tail[:padding], make([]byte, padding)) || !bytes.Equal(tail[padding:], sum) || x.wants >= 0 && x.wants != x.text {
		return errXZ
	}
	x.block = nil
	x.blocks++
	return x.record(uint64(length)+uint64(len(sum)), uint64(x.text))
}

// record remembers the lengths of a block, which the index repeats.
func (x *xzReader) record(packed, text uint64) error {
	return binary.Write(x.records, binary.LittleEndian, []uint64{packed, text})
}

// endStream reads the index and the footer, which show that no block is missing.
func (x *xzReader) endStream() error {
	sum := crc32.NewIEEE()
	sum.Write([]byte{0})
	index := &countingReader{in: x.in.in, sum: sum}
	blocks, err := binary.ReadUvarint(index)
	if err != nil {
		return xzError(err)
	}
	found := x.records.Sum(nil)
	x.records = sha256.New()
	for range min(blocks, x.blocks+1) {
		packed, err := binary.ReadUvarint(index)
		if err != nil {
			return xzError(err)
		}
		text, err := binary.ReadUvarint(index)
		if err != nil {
			return xzError(err)
		}
		if err := x.record(packed, text); err != nil {
			return err
		}
	}
	if blocks != x.blocks || !bytes.Equal(found, x.records.Sum(nil)) {
		return errXZ
	}
	padding := make([]byte, (4-(index.n+1)%4)%4)
	if _, err := io.ReadFull(index, padding); err != nil {
		return xzError(err)
	}
	length := index.n + 1
	var tail [16]byte // the checksum of the index, and the footer
	if _, err := io.ReadFull(x.in, tail[:]); err != nil {
		return xzError(err)
	}
	x.in.n += index.n
	footer := tail[4:]
	whole := binary.LittleEndian.Uint32(tail[:4]) == sum.Sum32() &&
		binary.LittleEndian.Uint32(footer) == crc32.ChecksumIEEE(footer[4:10]) &&
		(int64(binary.LittleEndian.Uint32(footer[4:]))+1)*4 == length+4 &&
		[2]byte(footer[8:10]) == x.flags && string(footer[10:]) == xzFooter &&
		bytes.Equal(padding, make([]byte, len(padding)))
	if !whole {
		return errXZ
	}
	x.inStream = false
	return nil
}

// countingReader counts the bytes that are taken, and adds them to a checksum where there is
// one.
type countingReader struct {
	in  *bufio.Reader
	n   int64
	sum hash.Hash32
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	if c.sum != nil {
		c.sum.Write(p[:n])
	}
	return n, err
}

// ReadByte keeps the library from reading ahead, which it would do without this method.
func (c *countingReader) ReadByte() (byte, error) {
	b, err := c.in.ReadByte()
	if err != nil {
		return 0, err
	}
	c.n++
	if c.sum != nil {
		c.sum.Write([]byte{b})
	}
	return b, nil
}
