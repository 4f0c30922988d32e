package snapshot

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"regexp"
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
	hidden  []string // YAML and JSON with a dot before their names or those of their folders
	refused []string // what kubectl said in place of lists
	foreign []string // YAML and JSON without Kubernetes objects
	broken  []error
	first   error
	read    map[string]bool // the names of the files that were read
	doubts  []doubt
}

// doubt is a file that may have held objects that are not in the input.
type doubt struct {
	name  string
	err   error
	kinds []Kind
	// objects are the names of the objects in an output for people; nil for other texts.
	objects []string
}

const mostPassed = 1000

// note adds a file that, by its name, holds no objects.
func (p *passed) note(name string) {
	if _, read := logOf(name); read || path.Ext(name) == ".log" || path.Base(name) == "logs.txt" {
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

// noteHidden adds a file that is not read because its name, or that of its folder, begins with a dot. The
// "._x.json" of macOS and what git keeps were never objects.
func (p *passed) noteHidden(name string) {
	base, _ := unzippedName(path.Base(name))
	isYAMLOrJSON := slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(path.Ext(base)))
	if isYAMLOrJSON && !strings.HasPrefix(base, "._") && !strings.Contains("/"+name, "/.git/") && len(p.hidden) < mostPassed {
		p.hidden = append(p.hidden, plain(name))
	}
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
	if err == nil && kinds.ended && len(bytes.TrimSpace(kinds.head)) == 0 {
		p.doubts = append(p.doubts, emptyFile(name))
		return nil
	}
	if p.read == nil {
		p.read = map[string]bool{}
	}
	p.read[name] = true
	if err == nil && kinds.ended && saysNothing(kinds.head) {
		p.foreign = append(p.foreign, plain(name))
	}
	if err == nil || !passable(err) || c.header != nil && c.headerAt.file == name {
		return err
	}
	if p.first == nil {
		p.first = err
	}
	if _, err := io.Copy(io.Discard, kinds); err != nil && !passable(err) {
		return err
	}
	if d := outputForPeople(name, kinds.head); d.err != nil && len(d.kinds) > 0 {
		p.doubts = append(p.doubts, d)
		return nil
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

// saysNothing reports whether the text has only comments and the marks of documents.
func saysNothing(text []byte) bool {
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' && !bytes.Equal(line, []byte("---")) && !bytes.Equal(line, []byte("...")) {
			return false
		}
	}
	return len(text) < mostHead
}

// refusalsOf returns the messages of kubectl about lists that an API server refused, if the text has nothing
// else, as its standard error has.
func refusalsOf(text []byte) (said []string) {
	for line := range bytes.Lines(text) {
		switch line = bytes.TrimSpace(line); {
		case len(line) == 0:
		case !refusals[0].Match(line) || !refusedResource.Match(line):
			return nil
		default:
			said = append(said, string(line))
		}
	}
	return said
}

// emptyFile returns the doubt about a file without any text.
func emptyFile(name string) doubt {
	d := doubt{name: name, kinds: Kinds(), err: errors.New(plain(name) + ": an empty file, as a failed kubectl leaves it: get it again, or leave the file out")}
	if kind := kindOfName(name); kind != "" {
		d.kinds = []Kind{kind}
	}
	return d
}

// kindOfName is kindByFile for all names and short names of a kind, as pvc.json.
func kindOfName(file string) Kind {
	base, _ := unzippedName(path.Base(filepath.ToSlash(file)))
	if r := rowNamed(strings.ToLower(strings.TrimSuffix(base, path.Ext(base)))); r != nil {
		return r.Kind
	}
	return ""
}

// look judges by its beginning a file that is not read.
func (p *passed) look(name string, in io.Reader) error {
	kinds := &namesInText{r: io.LimitReader(in, mostHead)}
	if _, err := io.Copy(io.Discard, kinds); err != nil {
		if passable(err) {
			return nil
		}
		return err
	}
	switch text := bytes.ReplaceAll(kinds.head, []byte{0}, nil); {
	case len(bytes.TrimSpace(text)) == 0:
		if d := emptyFile(name); len(d.kinds) == 1 && path.Ext(name) != ".log" {
			p.doubts = append(p.doubts, d)
		}
	case holdsObjects(text[:min(len(text), 4<<10)]) && !bytes.Contains(text, []byte("audit.k8s.io/")):
		err := errors.New(plain(name) + ": objects in a file whose name ends neither with .yaml nor with .json: rename it, or leave the file out")
		if missing := kinds.missing(name, true); len(missing) > 0 {
			p.doubts = append(p.doubts, doubt{name: name, kinds: missing, err: err})
		}
	case path.Ext(name) != ".log" && refusalsOf(text) != nil:
		p.refused = append(p.refused, refusalsOf(text)...)
	default:
		if d := outputForPeople(name, text); d.err != nil && len(d.kinds) > 0 {
			p.doubts = append(p.doubts, d)
		}
	}
	return nil
}

// shownBy match the lines of the outputs for people that only one kind has: the head of a table, and
// the fields of a description.
var shownBy = []struct {
	line *regexp.Regexp
	kind Kind
}{
	{regexp.MustCompile(`\bREADY +STATUS +RESTARTS\b|(?m:^(Containers|Node):)`), Pods},
	{regexp.MustCompile(`\bSTATUS +ROLES\b|(?m:^Roles:)`), Nodes},
	{regexp.MustCompile(`\bCAPACITY +ACCESS MODES +RECLAIM POLICY\b|(?m:^Reclaim Policy:)`), Volumes},
	{regexp.MustCompile(`\bSTATUS +VOLUME +CAPACITY\b|(?m:^Used By:)`), Claims},
	{regexp.MustCompile(`\bATTACHER +PV +NODE\b|(?m:^Kind: +VolumeAttachment)`), VolumeAttachments},
	{regexp.MustCompile(`\bLAST SEEN +TYPE +REASON\b`), Events},
	{regexp.MustCompile(`^NAME +PROVISIONER\b|(?m:^Provisioner:)`), StorageClasses},
	{regexp.MustCompile(`^NAME +ATTACHREQUIRED\b`), CSIDrivers},
	{regexp.MustCompile(`^NAME +DRIVERS +AGE\b`), CSINodes},
}

// described matches the name of an object that kubectl describes, and its namespace if it has one.
var described = regexp.MustCompile(`(?m)^Name: +(\S+)\s*$(?:\s^Namespace: +(\S+))?`)

// outputForPeople returns the doubt about a table of kubectl, or about its descriptions. It has no
// error for other texts, and no kinds if the objects are of other kinds.
func outputForPeople(name string, text []byte) doubt {
	text = bytes.TrimLeft(text, "\r\n")
	first, rows, _ := bytes.Cut(text, []byte("\n"))
	err := forPeople(first)
	if err == nil {
		return doubt{}
	}
	d := doubt{name: name, err: place{file: name, line: 1}.errorf("%w", err)}
	isTable := !bytes.HasPrefix(first, []byte("Name:"))
	shows := text
	if isTable {
		shows = first
	}
	for _, s := range shownBy {
		if s.line.Match(shows) {
			d.kinds = []Kind{s.kind}
			break
		}
	}
	if len(d.kinds) == 0 {
		if kind := kindOfName(name); kind != "" {
			d.kinds = []Kind{kind}
		}
		return d
	}
	if len(text) >= mostHead-1 || d.kinds[0] == Events {
		return d // not all names are known, or they name no objects
	}
	if isTable {
		inColumns := bytes.HasPrefix(first, []byte("NAMESPACE"))
		for row := range strings.Lines(string(rows)) {
			switch fields := strings.Fields(row); {
			case inColumns && len(fields) > 1:
				d.objects = append(d.objects, fields[0]+"/"+fields[1])
			case !inColumns && len(fields) > 0:
				d.objects = append(d.objects, fields[0])
			}
		}
		return d
	}
	for _, m := range described.FindAllSubmatch(text, -1) {
		d.objects = append(d.objects, strings.TrimPrefix(string(m[2])+"/"+string(m[1]), "/"))
	}
	return d
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
	for _, d := range p.doubts {
		p.settle(c, d)
	}
	for _, name := range p.packed {
		if !p.unpacked(name) {
			p.settle(c, doubt{name: name, kinds: Kinds(), err: errors.New(name + ": an archive, which is not opened within a folder or another archive: unpack it, read it alone, or leave it out")})
		}
	}
	for _, said := range p.refused {
		c.refuse(said, "", "")
	}
	say := func(names []string, more int, format string) {
		if len(names) > 0 {
			c.notes = append(c.notes, Warning(fmt.Sprintf(format, count(len(names)+more, "file"), some(names))))
		}
	}
	say(p.foreign, 0, "passed over %s without Kubernetes objects: %s")
	say(p.hidden, 0, "passed over %s, hidden by their names: %s")
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

// archiveEnd matches the end of an archive's name.
var archiveEnd = regexp.MustCompile(`(?i)\.(zip|tar(\.\w+)?|tgz|txz|7z|rar)(\.gz)?$`)

// unpacked reports whether the archive was unpacked beside itself: into a folder or a file of its name.
func (p *passed) unpacked(name string) bool {
	stem := "/" + archiveEnd.ReplaceAllString(name, "")
	for read := range p.read {
		file := "/" + read
		if strings.Contains(file, stem+"/") || strings.HasSuffix(file, stem) || strings.HasSuffix(strings.TrimSuffix(file, path.Ext(file)), stem) {
			return true
		}
	}
	return false
}

// settle makes a gap of each kind whose objects the file may have held, unless all of them are known: it
// shows only objects that were read, or is a copy of a file that was read.
func (p *passed) settle(c *collector, d doubt) {
	known := p.read[strings.TrimSuffix(d.name, path.Ext(d.name))]
	if !known && len(d.objects) > 0 {
		names := map[string]bool{}
		for key := range c.all(d.kinds[0]) {
			names[key.name], names[key.namespace+"/"+key.name] = true, true
		}
		known = !slices.ContainsFunc(d.objects, func(name string) bool { return !names[name] })
	}
	if known {
		if isReadable(d.name) {
			p.foreign = append(p.foreign, plain(d.name))
		}
		return
	}
	p.others = slices.DeleteFunc(p.others, func(name string) bool { return strings.HasSuffix(plain(d.name), "/"+name) })
	p.broken = append(p.broken, d.err)
	for _, kind := range d.kinds {
		if _, ok := c.broken[kind]; !ok {
			c.broken[kind] = Gap{Kind: kind, Reason: ReasonUndecodable, Detail: d.err.Error()}
		}
	}
}

// mostHead is the number of bytes at the beginning of a file that are kept.
const mostHead = 64 << 10

// cutAtBegin matches a whole text that ends within the first field of an object.
var cutAtBegin = regexp.MustCompile(`\A\s*([{\[][\s{\[]*("\w*|"kind"\s*:?\s*("\w*)?)?|api(V\w*)?)\s*\z`)

// namesInText notes the kinds whose names occur in a text, even if the text cannot be read.
type namesInText struct {
	r      io.Reader
	head   []byte // the beginning of the text
	before []byte // the end of the previous piece
	kinds  map[string]bool
	lists  bool // the items of a list have begun
	fields bool // a field is there that every object has
	ended  bool
}

func (k *namesInText) Read(p []byte) (int, error) {
	n, err := k.r.Read(p)
	k.ended = err == io.EOF
	k.head = append(k.head, p[:min(n, mostHead-len(k.head))]...)
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
	if kind := kindOfName(name); kind != "" {
		return []Kind{kind}
	}
	if cutAtBegin.Match(k.head) || len(k.kinds) == 0 && holdsObjects(k.head) && bytes.Contains(k.head, []byte("apiVersion")) {
		return Kinds()
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
