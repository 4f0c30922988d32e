package snapshot

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/archive"
)

// passed are the files of a folder or an archive that were not read. Such a file does not make the
// reading fail: it is named, and each kind that it may contain has a gap.
type passed struct {
	others  []string // the first files that are neither YAML nor JSON
	more    int
	packed  []string // archives
	foreign []string // YAML and JSON without Kubernetes objects
	broken  []error
	first   error
}

const mostPassed = 1000

// note adds a file that, by its name, holds no objects.
func (p *passed) note(name string) {
	if ext := path.Ext(name); ext == ".log" || path.Base(name) == "logs.txt" {
		return // a bundle may have thousands of logs
	}
	if isArchive(name) && len(p.packed) < mostPassed {
		p.packed = append(p.packed, plain(name))
		return
	}
	if len(p.others) >= mostPassed {
		p.more++
		return
	}
	p.others = append(p.others, plain(name))
}

// isArchive reports whether the name is that of an archive.
func isArchive(name string) bool {
	name, _ = unzippedName(strings.ToLower(name))
	return slices.Contains([]string{".zip", ".tar", ".tgz", ".txz", ".7z", ".rar"}, path.Ext(name)) || strings.HasSuffix(name, ".tar.xz") || strings.HasSuffix(name, ".tar.zst")
}

// none returns the error for a folder or an archive in which nothing could be read.
func (p *passed) none(name string) error {
	if len(p.packed) > 0 {
		return fmt.Errorf("%s: no .yaml, .yml or .json file in it, but an archive, which is not opened within another or a folder: name %s itself, or unpack it", plain(name), some(p.packed))
	}
	return fmt.Errorf("%s: no .yaml, .yml or .json file in it", plain(name))
}

// text reads a file. After an error nothing more can be read.
func (p *passed) text(c *collector, name string, in io.Reader) error {
	kinds := &namesInText{r: in}
	err := c.text(name, kinds)
	atEnd := kinds.ended && c.twin == nil
	err, c.twin = cmp.Or(err, c.twin), nil
	if err == nil || !passable(err) || c.header != nil && c.headerAt.file == name {
		return err
	}
	if p.first == nil {
		p.first = err
	}
	if _, err := io.Copy(io.Discard, kinds); err != nil && !passable(err) {
		return err
	}
	missing := kinds.missing(name, atEnd)
	if errors.Is(err, errTemplate) {
		missing = nil
	}
	for _, kind := range missing {
		if _, ok := c.broken[kind]; !ok {
			c.broken[kind] = Gap{Kind: kind, Reason: ReasonUndecodable, Detail: err.Error()}
		}
	}
	if _, is := errors.AsType[listOfStorage](err); is || len(missing) > 0 {
		p.broken = append(p.broken, err)
	} else {
		p.foreign = append(p.foreign, plain(name))
	}
	return nil
}

// passable reports whether the error concerns a single file only.
func passable(err error) bool {
	if _, ok := errors.AsType[archive.EndError](err); ok {
		return false
	}
	if _, ok := errors.AsType[leftOneError](err); ok {
		return false
	}
	_, ok := errors.AsType[ownError](err)
	return !ok
}

// ownError is an error in a document of our own, which describes all files, or an error about the
// number of objects in all files.
type ownError struct{ error }

func (e ownError) Unwrap() error { return e.error }

func own(err error) error {
	if err == nil {
		return nil
	}
	return ownError{err}
}

// end adds warnings about the files that were not read. It returns an error if none could be read.
func (p *passed) end(c *collector) error {
	if c.total == 0 && c.header == nil && len(c.ignored) == 0 && p.first != nil {
		return p.first
	}
	say := func(names []string, more int, format string) {
		if len(names) > 0 {
			c.notes = append(c.notes, Warning(fmt.Sprintf(format, count(len(names)+more, "file"), some(names))))
		}
	}
	say(p.foreign, 0, "passed over %s without Kubernetes objects: %s")
	say(p.packed, 0, "passed over %s, archives that are not opened here: unpack them, or read them alone: %s")
	say(p.others, p.more, "passed over %s, by their names neither YAML nor JSON: %s")
	for i, err := range p.broken {
		if i == maxIgnoredKinds {
			c.notes = append(c.notes, Warning(fmt.Sprintf("%s more could not be read", count(len(p.broken)-i, "file"))))
			break
		}
		c.notes = append(c.notes, Warning("not read: "+err.Error()))
	}
	return nil
}

// namesInText notes the kinds whose names occur in a text, even if the text cannot be read.
type namesInText struct {
	r      io.Reader
	before []byte // the end of the previous piece
	kinds  map[string]bool
	lists  bool // the items of a list have begun
	fields bool // a field is there that every object has
	ended  bool
}

func (k *namesInText) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	k.ended = err == io.EOF
	const longest = 64 // the longest match
	text := slices.Concat(k.before, p[:n])
	for rest := text; ; {
		i := bytes.Index(rest, []byte("kind"))
		if i < 0 {
			break
		}
		begins := i == 0 || strings.IndexByte("\n \t\"'{,-", rest[i-1]) >= 0
		rest = rest[i+len("kind"):]
		if begins {
			k.noteKind(rest)
		}
	}
	k.lists = k.lists || bytes.HasPrefix(text, []byte("items:")) || bytes.Contains(text, []byte("\nitems:")) || bytes.Contains(text, []byte("\"items\""))
	k.fields = k.fields || bytes.Contains(text, []byte("metadata")) || bytes.Contains(text, []byte("apiVersion"))
	k.before = append(k.before[:0], text[max(0, len(text)-longest):]...)
	return n, err
}

// noteKind notes the name after the field "kind".
func (k *namesInText) noteKind(value []byte) {
	value = value[:min(len(value), 64)]
	value = bytes.TrimLeft(bytes.TrimLeft(value, "\"' "), ": \"'\t")
	end := bytes.IndexFunc(value, func(r rune) bool { return !unicode.IsLetter(r) })
	if end <= 0 || k.kinds[string(value[:end])] || len(k.kinds) >= MaxIgnoredKinds {
		return
	}
	if k.kinds == nil {
		k.kinds = map[string]bool{}
	}
	k.kinds[string(value[:end])] = true
}

// missing returns the kinds whose objects the unreadable text may contain: the kind in the file's
// name, else the kinds in the text. A text that was cut off within a list may have contained
// objects of any kind, and one without a field that every object has contains none.
func (k *namesInText) missing(name string, atEnd bool) []Kind {
	if kind := kindByFile(name); kind != "" {
		return []Kind{kind}
	}
	if !k.fields {
		return nil // such as the names in a tree of Argo CD
	}
	var named, listed []Kind
	for _, r := range resources {
		if k.kinds[r.Object] {
			named = append(named, r.Kind)
		}
		if k.kinds[r.Object+"List"] {
			listed = append(listed, r.Kind)
		}
	}
	switch {
	case len(listed) > 0:
		return listed
	case len(named) > 0 && k.lists && atEnd:
		return Kinds()
	}
	return named
}
