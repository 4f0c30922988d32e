package snapshot

import (
	"bytes"
	"errors"
	"io"
)

// single reads the file of one object. A must-gather has such a file for each node, volume
// and attachment. It is judged once it is decoded.
func (t *tree) single(p *part, f bundleFile, name string, in io.Reader) {
	next := t.singles.gathering()
	text := bytes.NewBuffer(next.text)
	n, err := io.CopyN(text, in, largeText)
	next.text = text.Bytes()
	if n == largeText || !errors.Is(err, io.EOF) { // a large one, or one that cannot be read
		whole := io.MultiReader(bytes.NewReader(bytes.Clone(next.text)), in)
		next.forget()
		t.takeSingles()
		p.read(f, name, whole)
		return
	}
	next.file, next.name, next.part, next.begin = f, name, p, 1
	if bytes.HasPrefix(next.text, []byte(documentMark)) {
		next.begin++
	}
	next.look = firstLook{p.left.wants, &next.pod}
	t.singles.decode()
	if t.singles.full() {
		_ = t.singles.take(takeSingle)
	}
}

// takeSingles judges the files that are decoded: what comes now comes after them.
func (t *tree) takeSingles() { _ = t.singles.takeAll(takeSingle) }

// takeSingle never fails: what is wrong is the list's.
func takeSingle(s *textAhead) error {
	if s.object == nil {
		s.part.read(s.file, s.name, bytes.NewReader(s.text))
		return nil
	}
	before := s.part.total
	err := s.part.take(place{file: s.name, line: s.begin, document: 1}, s.of, s.raw, s.object)
	s.part.judge(s.file, s.name, before, err)
	return nil
}

// read reads a file of the list.
func (p *part) read(f bundleFile, name string, in io.Reader) {
	before := p.total
	p.judge(f, name, before, p.text(name, in))
}
