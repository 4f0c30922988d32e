package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"io"
)

// isTar reports whether the stream has the mark of a tar archive, which every tar written
// since 1988 has.
func isTar(in *bufio.Reader) bool {
	const offset = 257
	mark := []byte("ustar")
	head, _ := in.Peek(offset + len(mark))
	return len(head) == offset+len(mark) && bytes.Equal(head[offset:], mark)
}

func tarFiles(in io.Reader) Files {
	return func(yield func(File, error) bool) {
		tail := &tailReader{r: in}
		archive := tar.NewReader(tail)
		for {
			entry, err := archive.Next()
			if err == io.EOF {
				break
			}
			if err != nil {
				yield(File{}, tarError(err))
				return
			}
			file := File{Name: entry.Name, Kind: Special, Text: tarText{archive}}
			switch entry.Typeflag {
			case tar.TypeReg:
				file.Kind = Regular
			case tar.TypeDir:
				file.Kind = Directory
			}
			if !yield(file, nil) {
				return
			}
			if _, err := io.Copy(io.Discard, archive); err != nil {
				yield(File{}, tarError(err))
				return
			}
			tail.zeros = 0
		}
		if err := tail.end(); err != nil {
			yield(File{}, tarError(err))
		}
	}
}

// tailReader counts the zeros at the end of the bytes read so far. A tar archive ends with
// two blocks of zeros; one that was cut off between two entries does not.
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

// end reads the bytes after the last entry. They must all be zeros: a second archive after
// the first would not be read.
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

// tarText explains the errors of an entry's text to people.
type tarText struct{ r io.Reader }

func (f tarText) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = tarError(err)
	}
	return n, err
}

func tarError(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return EndError("the tar archive is cut off")
	case errors.Is(err, tar.ErrHeader):
		return EndError("the tar archive is damaged")
	}
	return err
}
