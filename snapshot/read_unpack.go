package snapshot

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"path"
)

// unpack tells by the first bytes what a stream is, not by its name: standard
// input has none.
func unpack(name string, r io.Reader, limits limits) (unpacked io.Reader, isArchive bool, err error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(in)
		if err != nil {
			return nil, false, fmt.Errorf("%s: %w", plain(name), gzipError(err))
		}
		left := limits.unpacked
		in = bufio.NewReader(&boundedReader{r: unzipped, left: &left, limit: limits.unpacked, zipped: true})
	} else {
		left := limits.unpacked
		in = bufio.NewReader(&boundedReader{r: in, left: &left, limit: limits.unpacked})
	}
	return in, isTar(in), nil
}

// isTar looks for the mark that every tar written since 1988 has.
func isTar(in *bufio.Reader) bool {
	const offset = 257
	mark := []byte("ustar")
	head, _ := in.Peek(offset + len(mark))
	return len(head) == offset+len(mark) && bytes.Equal(head[offset:], mark)
}

// archive reads the files of an archive as ReadFS does those of a directory.
// Their names are only ever shown, and links in it are not followed: nothing is
// written anywhere, and nothing else is read.
func (t *tree) archive(name string, in io.Reader) error {
	tail := &tailReader{r: in}
	archive := tar.NewReader(tail)
	files, entries := 0, 0
	for {
		entry, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return t.archiveFailed(name, err)
		}
		if entries++; entries > t.limits.files {
			return tooMany(name, t.limits)
		}
		p := path.Clean(entry.Name)
		if t.wanted(p) {
			if err := t.entry(name+"/"+p, p, entry, archive); err != nil {
				return err
			}
			if entry.Typeflag == tar.TypeReg && readable(p) {
				files++
			}
		}
		if _, err := io.Copy(io.Discard, archive); err != nil {
			return t.archiveFailed(name, err)
		}
		tail.zeros = 0
	}
	if err := tail.end(); err != nil {
		return t.archiveFailed(name, err)
	}
	if t.failed != nil && !t.isBundle() {
		return t.failed
	}
	if files == 0 {
		return fmt.Errorf("%s: no .yaml, .yml or .json file in it", plain(name))
	}
	return nil
}

// archiveFailed gives the error of the archive itself, unless one of its files
// failed before.
func (t *tree) archiveFailed(name string, err error) error {
	if t.failed != nil && !t.isBundle() {
		return t.failed
	}
	return fmt.Errorf("%s: %w", plain(name), tarError(err))
}

// entry reads an entry that is wanted. A link, or a file in a form that is not
// read, loses the objects in it: that is an error, except in a bundle, where a
// list that is not there is a gap.
func (t *tree) entry(name, p string, entry *tar.Header, text io.Reader) error {
	switch {
	case entry.Typeflag == tar.TypeReg:
		return t.file(name, p, tarFile{text})
	case entry.Typeflag == tar.TypeDir:
	case t.failed == nil && !isBundleFile(p):
		t.failed = fmt.Errorf("%s: a link or a special file in the archive: pack what it leads to, as with tar -h", plain(name))
	}
	return nil
}

// tailReader counts the zeros at the end of what was read. A tar archive ends
// with two blocks of them; one that was cut off between two entries does not.
type tailReader struct {
	r     io.Reader
	zeros int
}

func (r *tailReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	rest := len(bytes.TrimRight(p[:n], "\x00"))
	if rest > 0 {
		r.zeros = 0
	}
	r.zeros += n - rest
	return n, err
}

// end reads what follows the last entry. It must be zeros alone: a second archive
// after the first would not be read.
func (r *tailReader) end() error {
	const marker = 2 * 512
	if r.zeros < marker {
		return errors.New("the tar archive is cut off: it has no end marker")
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := r.r.Read(buffer)
		if len(bytes.TrimRight(buffer[:n], "\x00")) > 0 {
			return errors.New("more data follows the end of the tar archive; give one archive at a time")
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// tarFile gives the errors of an entry's text the words for people.
type tarFile struct{ r io.Reader }

func (f tarFile) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = tarError(err)
	}
	return n, err
}

func tarError(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the tar archive is cut off")
	case errors.Is(err, tar.ErrHeader):
		return errors.New("the tar archive is damaged")
	}
	return err
}

// boundedReader ends a file without an end and a decompression bomb, and explains
// gzip's errors. Several readers may share what is left.
type boundedReader struct {
	r      io.Reader
	left   *int64
	limit  int64
	zipped bool
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if *b.left <= 0 {
		if b.zipped {
			return 0, fmt.Errorf("unpacks to more than %s", size(b.limit))
		}
		return 0, fmt.Errorf("holds more than %s", size(b.limit))
	}
	if int64(len(p)) > *b.left {
		p = p[:*b.left]
	}
	n, err := b.r.Read(p)
	*b.left -= int64(n)
	if b.zipped && err != nil && !errors.Is(err, io.EOF) {
		err = gzipError(err)
	}
	return n, err
}

func gzipError(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return errors.New("the gzip data is cut off")
	}
	return fmt.Errorf("the gzip data is damaged (%w)", err)
}

// size writes a limit as people do.
func size(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
