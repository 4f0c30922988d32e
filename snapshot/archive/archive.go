// Package archive distinguishes an archive of files from a plain text, and reads either
// within bounds. It writes nothing to disk and follows no link, and an archive that is not
// whole is an error.
package archive

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"iter"
)

// Kind is the kind of an archive's entry.
type Kind int

// The kinds of entries.
const (
	Regular Kind = iota
	Directory
	Special // a link, a device or the like: it has no text
)

// File is an entry of an archive.
type File struct {
	// Name is the path that the archive gives. It may be absolute, or lead out of
	// any folder.
	Name string
	Kind Kind
	// Text is the text of a Regular file, valid until the next file is asked for. Its
	// errors are fit for a message.
	Text io.Reader
}

// Files are the entries in the archive's order. An error is the last that is
// yielded: what follows it cannot be read.
type Files iter.Seq2[File, error]

// MaxHeld bounds how much of a zip archive from a pipe is held. Its table of contents stands
// at its end, so that all of it must be there first.
const MaxHeld = 256 << 20

// MaxDictionary bounds the memory for unpacking xz. It is as much as xz -9 uses.
const MaxDictionary = 64 << 20

// Limits are the bounds that a caller sets.
type Limits struct {
	// Unpacked bounds the bytes that are read, after unpacking.
	Unpacked int64
	// Files is the largest number of files that the caller accepts; this package applies it
	// only to the table of contents of a zip archive.
	Files int
}

// foreign are the first bytes of formats that are not read, with the formats' names.
var foreign = []struct{ magic, name string }{
	{"BZh", "bzip2"}, {"\x28\xb5\x2f\xfd", "zstd"}, {"7z\xbc\xaf\x27\x1c", "7-Zip"}, {"Rar!\x1a\x07", "RAR"}, {"\x04\x22\x4d\x18", "lz4"},
}

// mostPacked is how often a stream may be packed: an upload may pack again what is packed already.
const mostPacked = 3

// Open recognises the stream by its first bytes, not by its name: standard input has none. It
// returns the files of a tar or zip archive, or else the text; a tar archive and a text may
// be packed with gzip or xz.
func Open(r io.Reader, limits Limits) (text io.Reader, files Files, err error) {
	whole := seekable(r)
	in := bufio.NewReader(r)
	left := limits.Unpacked
	head, _ := in.Peek(8)
	for _, f := range foreign {
		if bytes.HasPrefix(head, []byte(f.magic)) {
			return nil, nil, fmt.Errorf("packed with %s, which is not read: unpack it, or pack it with gzip, xz or zip", f.name)
		}
	}
	switch {
	case bytes.HasPrefix(head, []byte(zipMagic)), bytes.HasPrefix(head, []byte(emptyZip)):
		if whole == nil {
			if whole, err = held(in); err != nil {
				return nil, nil, err
			}
		}
		files, err = zipFiles(whole, limits)
		return nil, files, err
	}
	depth := 0
	for ; depth < mostPacked; depth++ {
		switch head, _ := in.Peek(8); {
		case bytes.HasPrefix(head, []byte(xzMagic)):
			in = bufio.NewReader(&bounded{r: newXZReader(in), left: &left, limit: limits.Unpacked, packed: true})
			continue
		case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
			unpacked, err := Unzipped(in, &left, limits.Unpacked)
			if err != nil {
				return nil, nil, err
			}
			in = bufio.NewReader(unpacked)
			continue
		}
		break
	}
	if depth == 0 {
		in = bufio.NewReader(&bounded{r: in, left: &left, limit: limits.Unpacked})
	}
	if isTar(in) {
		return nil, tarFiles(in), nil
	}
	return in, nil, nil
}

// Bounded ends a reader with an error after the rest of limit that left holds. Several
// readers may share it.
func Bounded(r io.Reader, left *int64, limit int64) io.Reader {
	return &bounded{r: r, left: left, limit: limit}
}

// Unzipped is the unpacked content of a gzip stream, bounded as by Bounded.
func Unzipped(r io.Reader, left *int64, limit int64) (io.Reader, error) {
	unzipped, err := gzip.NewReader(r)
	if err != nil {
		return nil, gzipError(err)
	}
	return &bounded{r: unzipped, left: left, limit: limit, packed: true, explain: gzipError}, nil
}

// EndError says why no further file can be read: a bound was reached, or the archive is cut
// off.
type EndError string

func (e EndError) Error() string { return string(e) }

// bounded protects against a file without an end, and against a decompression bomb.
type bounded struct {
	r       io.Reader
	left    *int64
	limit   int64
	packed  bool
	explain func(error) error // nil where the errors need no explanation
}

func (b *bounded) Read(p []byte) (int, error) {
	if *b.left <= 0 {
		if b.packed {
			return 0, EndError("unpacks to more than " + Size(b.limit))
		}
		return 0, EndError("holds more than " + Size(b.limit))
	}
	if int64(len(p)) > *b.left {
		p = p[:*b.left]
	}
	n, err := b.r.Read(p)
	*b.left -= int64(n)
	if b.explain != nil && err != nil && !errors.Is(err, io.EOF) {
		err = b.explain(err)
	}
	return n, err
}

func gzipError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the gzip data is cut off")
	}
	return fmt.Errorf("the gzip data is damaged (%w)", err)
}

// Size is a limit in units that people use.
func Size(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
