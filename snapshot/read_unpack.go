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
		in = bufio.NewReader(&boundedReader{r: unzipped, left: limits.unpacked, limit: limits.unpacked})
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
	archive := tar.NewReader(in)
	files, entries := 0, 0
	for {
		entry, err := archive.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			if t.failed != nil && !t.isBundle() {
				return t.failed // what was seen first
			}
			return fmt.Errorf("%s: %w", plain(name), tarError(err))
		}
		if entries++; entries > t.limits.files {
			return tooMany(name, t.limits)
		}
		p := path.Clean(entry.Name)
		if entry.Typeflag != tar.TypeReg || !t.wanted(p) {
			continue
		}
		if readable(p) {
			files++
		}
		if err := t.file(name+"/"+p, p, tarFile{archive}); err != nil {
			return err
		}
	}
	if t.failed != nil && !t.isBundle() {
		return t.failed
	}
	if files == 0 {
		return fmt.Errorf("%s: no .yaml, .yml or .json file in it", plain(name))
	}
	return nil
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

// boundedReader ends a decompression bomb, and gives gzip's errors words for
// people.
type boundedReader struct {
	r           io.Reader
	left, limit int64
}

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("unpacks to more than %s", size(b.limit))
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.r.Read(p)
	b.left -= int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
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
