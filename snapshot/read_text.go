package snapshot

import (
	"bufio"
	"bytes"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/archive"
)

// text reads one file that is not packed.
func (c *collector) text(name string, r io.Reader) error {
	c.rest = rest{r: r}
	c.in.Reset(&c.rest)
	before := c.total
	c.clock.of.begin(name)
	defer c.clock.of.end()
	ended, err := c.documents(place{file: name, line: 1})
	if err != nil {
		return err
	}
	return c.checkHeader(name, c.total-before, ended)
}

// documents reads all documents of a text. It says whether the text shows that it
// is whole: by an end marker, or because it is one JSON value.
func (c *collector) documents(at place) (ended bool, err error) {
	head, err := c.in.Peek(512)
	if err != nil && err != io.EOF {
		return false, at.errorf("%w", err)
	}
	if archive.IsUTF16(head) {
		c.readThrough(archive.FromUTF16)
		head, _ = c.in.Peek(512)
	}
	if bytes.HasPrefix(head, byteOrderMark) {
		_, _ = c.in.Discard(len(byteOrderMark))
	}
	if bytes.IndexByte(head, 0) >= 0 {
		return false, at.errorf("binary data, neither YAML nor JSON")
	}
	head, _ = c.in.Peek(8 << 10)
	if change := undress(head); change != nil {
		c.readThrough(func(r io.Reader) io.Reader { return &lineFilter{in: bufio.NewReaderSize(r, 64<<10), change: change} })
	}
	head, _ = c.in.Peek(512)
	first, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\n"))
	if err := forPeople(first); err != nil {
		return false, at.errorf("%w", err)
	}
	c.pasted = false
	for {
		if bytes.HasPrefix(head, byteOrderMark) { // behind JSON
			_, _ = c.in.Discard(len(byteOrderMark))
			head, _ = c.in.Peek(512)
		}
		read := c.yamlDocuments
		if beginsJSON(head) {
			read = c.jsonDocuments
		}
		next, ended, err := read(at)
		if err != nil || next == nil {
			return ended, err
		}
		at = *next
		head, _ = c.in.Peek(512)
	}
}

var byteOrderMark = []byte("\ufeff")

// readThrough has what is left of the text changed before it is read. Nothing was put back yet.
func (c *collector) readThrough(change func(io.Reader) io.Reader) {
	held, _ := c.in.Peek(c.in.Buffered())
	c.rest = rest{r: change(io.MultiReader(bytes.NewReader(bytes.Clone(held)), c.rest.r))}
	c.in.Reset(&c.rest)
}

// list is a document while it is read: a list, as long as it has items. They
// are taken one by one, so that the list of all pods of a cluster need not be
// held.
type list struct {
	c                *collector
	at               place
	apiVersion, kind string // "" until read: kubectl writes them after the items
	items            int
	hasItems         bool // there is a field of that name
	untyped          []untypedItem
	untypedSize      int64
	kinds            []Kind
	// odd is where the field of the items held something else.
	odd *place
}

type untypedItem struct {
	at  place
	raw []byte
}

// item takes an item, which must be JSON and may have been read from line. It does not
// keep raw.
func (l *list) item(line int, raw []byte) error {
	s, object := l.c.usual(raw)
	return l.decoded(line, raw, s, object)
}

// decoded takes an item; object is what it is, or nil where it is not known yet.
func (l *list) decoded(line int, raw []byte, s *row, object apiObject) error {
	l.items++
	at := l.at.atLine(line)
	at.item = l.items
	if object != nil {
		l.noteKind(s)
		return l.c.take(at, s, raw, object)
	}
	t, err := readTypeName(at, raw)
	if err != nil && l.kind != "" {
		return err
	}
	if l.kind == "" && (t.kind == "" || t.apiVersion == "") {
		const overhead = 128 // of each item in memory
		l.untypedSize += int64(len(raw)) + overhead
		if l.untypedSize > l.c.limits.untyped {
			return at.errorf("a list of more than %s whose items do not say their kind; write it as JSON", archive.Size(l.c.limits.untyped))
		}
		l.untyped = append(l.untyped, untypedItem{at, bytes.Clone(raw)})
		return nil
	}
	return l.typedItem(at, t, raw)
}

// typedItem gives an item of a PodList its kind, which it need not say itself.
func (l *list) typedItem(at place, t typeName, raw []byte) error {
	if t.kind == "" && l.kind != "List" {
		t.kind = strings.TrimSuffix(l.kind, "List")
		if t.apiVersion == "" {
			t.apiVersion = l.apiVersion
		}
	}
	if s := byType[t]; s != nil {
		l.noteKind(s)
	}
	return l.c.object(at, t, raw)
}

func (l *list) noteKind(s *row) {
	if !slices.Contains(l.kinds, s.Kind) {
		l.kinds = append(l.kinds, s.Kind)
	}
}

func isListKind(kind string) bool { return strings.HasSuffix(kind, "List") }

// anyList is the list that kubectl writes.
var anyList = typeName{"v1", "List"}

// kindByFile is the kind that a file is called after, as "pods" in a/pods.yaml; "" for another
// name. kubectl writes an empty list without the kind that was asked for.
func kindByFile(file string) Kind {
	base := path.Base(filepath.ToSlash(file))
	name := Kind(strings.TrimSuffix(base, path.Ext(base)))
	if slices.Contains(Kinds(), name) {
		return name
	}
	return ""
}

// itemType is the type of a list's items. It is no type for a list of any kind.
func itemType(list typeName) typeName {
	if !isListKind(list.kind) {
		return typeName{}
	}
	return typeName{list.apiVersion, strings.TrimSuffix(list.kind, "List")}
}

// end takes what the document holds beside its items.
func (l *list) end(rest []byte) error {
	t, err := readTypeName(l.at, rest)
	if err != nil {
		return err
	}
	isList := isListKind(t.kind)
	of := byType[itemType(t)]
	switch {
	case l.items > 0 && t.kind == "":
		return l.at.errorf("a list that does not say its kind: the file was cut off")
	case l.items > len(l.untyped) && !isList:
		return l.at.errorf("%s has Kubernetes objects as its items, but is no list", plain(t.kind))
	case !l.hasItems && (t.kind == "List" || of != nil):
		return l.at.errorf("%s without items: the file was cut off", plain(t.kind))
	case l.odd != nil && isList:
		return l.odd.errorf("items must be a list")
	case l.items == 0 && !isList, len(l.untyped) > 0 && !isList:
		// A kind of its own whose field happens to be called items.
		return l.c.object(l.at, t, rest)
	}
	if t == anyList {
		l.c.lists[""]++
		if kind := kindByFile(l.at.file); kind != "" && l.items == 0 {
			l.c.lists[kind]++
		}
	} else if of != nil {
		l.c.lists[of.Kind]++
		l.c.typed[itemType(t).apiVersion+" "+of.Object]++
		l.noteKind(of)
	} else if s := lookalike(itemType(t)); s != nil {
		l.c.otherVersion(s, itemType(t))
	}
	if t.kind == "ReplicationControllerList" && !l.c.oneOfMany {
		l.c.dumped = true // nobody else asks for them
	}
	l.apiVersion, l.kind = t.apiVersion, t.kind
	for _, item := range l.untyped {
		t, err := readTypeName(item.at, item.raw)
		if err != nil {
			return err
		}
		if err := l.typedItem(item.at, t, item.raw); err != nil {
			return err
		}
	}
	var head struct {
		Metadata struct {
			Continue           string `json:"continue"`
			RemainingItemCount int64  `json:"remainingItemCount"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(rest, &head); err != nil {
		return l.at.errorf("%s", plain(whyUndecodable(err)))
	}
	if head.Metadata.Continue != "" || head.Metadata.RemainingItemCount > 0 {
		// One page of a list that was asked for in pages. A list of any kind does
		// not tell the kind of the next page.
		kinds := l.kinds
		if of == nil {
			kinds = Kinds()
		}
		for _, kind := range kinds {
			l.c.truncated[kind] = true
		}
	}
	return nil
}

// readTypeName reads no more than that, for all else may be anything in an
// object of an unknown kind.
func readTypeName(at place, raw []byte) (typeName, error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	strict, err := kjson.UnmarshalStrict(raw, &head, kjson.DisallowDuplicateFields)
	if err != nil {
		return typeName{}, at.errorf("%s", plain(whyUndecodable(err)))
	}
	if len(strict) > 0 {
		return typeName{}, at.errorf("%s", plain(strict[0].Error()))
	}
	return typeName{head.APIVersion, head.Kind}, nil
}

func (c *collector) tooLarge(at place) error {
	return at.errorf("more than %s in one piece, which no API object has", archive.Size(c.limits.document))
}
