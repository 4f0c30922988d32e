package archive

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The first bytes of a zip archive, and of one without files.
const (
	zipMagic = "PK\x03\x04"
	emptyZip = "PK\x05\x06"
)

// perEntry is the size of an entry in the table of contents of a large archive: 46 bytes, and
// a path.
const perEntry = 160

var (
	errZipCut  = errors.New("the zip archive is cut off or damaged: its table of contents cannot be read")
	errZipMore = errors.New("the zip archive is damaged, or stands beside another in one file; give one archive at a time")
)

// section is a file that can be read from anywhere.
type section struct {
	io.ReaderAt
	size int64
}

// seekable returns the rest of the stream as a section; nil for a pipe.
func seekable(r io.Reader) *section {
	at, ok := r.(interface {
		io.ReaderAt
		io.Seeker
	})
	if !ok {
		return nil
	}
	from, err := at.Seek(0, io.SeekCurrent)
	if err != nil {
		return nil
	}
	end, err := at.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	if _, err := at.Seek(from, io.SeekStart); err != nil {
		return nil
	}
	return &section{io.NewSectionReader(at, from, end-from), end - from}
}

// held reads a pipe into memory.
func held(in io.Reader) (*section, error) {
	text, err := io.ReadAll(io.LimitReader(in, MaxHeld+1))
	if err != nil {
		return nil, err
	}
	if len(text) > MaxHeld {
		return nil, fmt.Errorf("a zip archive of more than %s from a pipe; save it, and name the file", Size(MaxHeld))
	}
	return &section{bytes.NewReader(text), int64(len(text))}, nil
}

func zipFiles(whole *section, limits Limits) (Files, error) {
	contents := &metered{whole, int64(limits.Files)*perEntry + 1<<20}
	archive, err := zip.NewReader(contents, whole.size)
	switch {
	case contents.left < 0:
		return nil, fmt.Errorf("more than %d files in it", limits.Files)
	case err != nil:
		return nil, errZipCut
	}
	contents.left = whole.size + limits.Unpacked // the headers and the texts, each read once
	if err := alone(whole, archive); err != nil {
		return nil, err
	}
	left := limits.Unpacked
	return func(yield func(File, error) bool) {
		for _, entry := range archive.File {
			file := File{Name: entry.Name, Kind: Special}
			if !strings.Contains(file.Name, "/") { // older Windows writes backslashes
				file.Name = strings.ReplaceAll(file.Name, `\`, "/")
			}
			switch {
			case entry.Mode().IsDir() && entry.UncompressedSize64 == 0:
				file.Kind = Directory
			case entry.Mode().IsRegular():
				file.Kind = Regular
			}
			var text *zipText
			if file.Kind == Regular {
				text = &zipText{entry: entry, left: &left, limit: limits.Unpacked}
				file.Text = text
			}
			if !yield(file, nil) {
				return
			}
			if text != nil {
				if err := text.close(); err != nil {
					yield(File{}, err)
					return
				}
			}
		}
	}, nil
}

// alone makes sure that the table of contents ends where the archive says, and the archive
// with the last byte: of two archives one after the other, only one would be read.
func alone(whole *section, archive *zip.Reader) error {
	const (
		length, length64, locator = 22, 56, 20
		large                     = 1<<32 - 1
	)
	at := whole.size - length - int64(len(archive.Comment))
	var end [length]byte
	if _, err := whole.ReadAt(end[:], at); err != nil || string(end[:4]) != emptyZip {
		return errZipMore
	}
	size, from := uint64(binary.LittleEndian.Uint32(end[12:])), uint64(binary.LittleEndian.Uint32(end[16:]))
	if size == large || from == large || binary.LittleEndian.Uint16(end[10:]) == 1<<16-1 {
		var end64 [length64]byte
		if at -= locator + length64; at < 0 {
			return errZipMore
		}
		if _, err := whole.ReadAt(end64[:], at); err != nil {
			return errZipMore
		}
		if string(end64[:4]) == "PK\x06\x06" {
			size, from = binary.LittleEndian.Uint64(end64[40:]), binary.LittleEndian.Uint64(end64[48:])
		} else {
			at += locator + length64 // the short form cannot hold more entries
		}
	}
	if size > uint64(at) || from != uint64(at)-size {
		return errZipMore
	}
	return nil
}

// metered counts the bytes that are read of a section: a table of contents can be much longer
// than it says, and each of its entries takes memory.
type metered struct {
	*section
	left int64
}

func (m *metered) ReadAt(p []byte, at int64) (int, error) {
	if m.left -= int64(len(p)); m.left < 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return m.section.ReadAt(p, at)
}

// zipText is the text of an entry, which is opened when it is first read.
type zipText struct {
	entry *zip.File
	left  *int64
	limit int64
	open  io.ReadCloser
}

func (z *zipText) Read(p []byte) (int, error) {
	if z.open == nil {
		const encrypted = 1
		if z.entry.Flags&encrypted != 0 {
			return 0, errors.New("encrypted: unpack it")
		}
		open, err := z.entry.Open()
		if err != nil {
			return 0, zipError(z.entry, err)
		}
		z.open = open
	}
	within := bounded{r: z.open, left: z.left, limit: z.limit, packed: true, explain: func(err error) error { return zipError(z.entry, err) }}
	return within.Read(p)
}

// close reads the rest of a text that was read in part: its checksum stands at the end.
func (z *zipText) close() error {
	if z.open == nil {
		return nil
	}
	_, err := io.Copy(io.Discard, z)
	_ = z.open.Close()
	return err
}

func zipError(entry *zip.File, err error) error {
	if errors.Is(err, zip.ErrAlgorithm) {
		return fmt.Errorf("packed with method %d, which is not read: unpack it", entry.Method)
	}
	return errors.New("the zip archive is damaged")
}
