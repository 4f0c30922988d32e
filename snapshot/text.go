package snapshot

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/archive"
	"k8s.io/apimachinery/pkg/util/json"
	kjson "sigs.k8s.io/json"
)

// text reads one file that is not packed.
func (c *collector) text(name string, r io.Reader) error {
	c.rest, c.commands = rest{r: r}, nil
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

// documents reads all documents of a text. It reports whether the text shows that it is complete:
// by an end marker, or because it is a single JSON value.
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
		if bytes.HasPrefix(head, byteOrderMark) { // a byte order mark after JSON
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

// readThrough converts the rest of the text before it is read. Nothing may have been put back yet.
func (c *collector) readThrough(change func(io.Reader) io.Reader) {
	held, _ := c.in.Peek(c.in.Buffered())
	c.rest = rest{r: change(io.MultiReader(bytes.NewReader(bytes.Clone(held)), c.rest.r))}
	c.in.Reset(&c.rest)
}

// list is a document that is being read. If it has items, these are read one by one, so that the
// list of all pods of a cluster need not be held.
type list struct {
	c                *collector
	at               place
	apiVersion, kind string // "" until read: kubectl writes both after the items
	items            int
	hasItems         bool // the document has a field "items"
	ended            bool // the end of the document was read: it is JSON
	collects         bool // the document says that it is a collection, as Rancher's API (steve) does of its lists
	untyped          []untypedItem
	untypedSize      int64
	kinds            []Kind
	// odd is the place of a field "items" that is not a list.
	odd *place
}

type untypedItem struct {
	at  place
	raw []byte
}

// item adds an item, which must be JSON. It does not keep raw. The item begins on
// the given line.
func (l *list) item(line int, raw []byte) error {
	s, object := l.c.usual(raw)
	return l.decoded(line, raw, s, object)
}

// decoded adds an item. The object is the decoded item, or nil if it is not decoded yet.
func (l *list) decoded(line int, raw []byte, s *row, object apiObject) error {
	l.items++
	at := l.at.atLine(line)
	at.item = l.items
	if object != nil {
		l.noteKind(s)
		return l.c.take(at, s, raw, object)
	}
	if bytes.HasPrefix(raw, []byte("[")) { // as jq joins the items of several lists
		return l.c.nested(at, raw)
	}
	t, err := readTypeName(at, raw)
	if err != nil && l.kind != "" {
		return err
	}
	if l.kind == "" && (t.kind == "" || t.apiVersion == "") {
		const overhead = 128 // memory for each item besides its text
		l.untypedSize += int64(len(raw)) + overhead
		if l.untypedSize > l.c.limits.untyped {
			return at.errorf("a list of more than %s whose items do not say their kind; write it as JSON", archive.Size(l.c.limits.untyped))
		}
		l.untyped = append(l.untyped, untypedItem{at, bytes.Clone(raw)})
		return nil
	}
	return l.typedItem(at, t, raw)
}

// typedItem sets the kind of an item from its list, for example of a PodList, whose items may lack
// it.
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

// anyList is the type of the lists that kubectl writes.
var anyList = typeName{"v1", "List"}

// kindByFile returns the kind after which a file is named, as "pods" for a/pods.yaml; "" for other
// names. An empty list of kubectl does not name the kind.
func kindByFile(file string) Kind {
	base, _ := unzippedName(path.Base(filepath.ToSlash(file)))
	name := Kind(strings.TrimSuffix(base, path.Ext(base)))
	if slices.Contains(Kinds(), name) {
		return name
	}
	return ""
}

// collectedKind returns the kind of a collection from Rancher's API; "" if the text is something else.
func collectedKind(rest []byte) Kind {
	var head struct{ Type, ResourceType string }
	if json.Unmarshal(rest, &head) != nil || head.Type != "collection" {
		return ""
	}
	if r := rowNamed(strings.TrimPrefix(head.ResourceType, "storage.k8s.io.")); r != nil {
		return r.Kind
	}
	return ""
}

// itemType returns the type of a list's items; the zero type for a list of any kind.
func itemType(list typeName) typeName {
	if !isListKind(list.kind) {
		return typeName{}
	}
	return typeName{list.apiVersion, strings.TrimSuffix(list.kind, "List")}
}

// end reads the fields of the document besides its items.
func (l *list) end(rest []byte) error {
	listed := l.c.answeredBy(l.at.line)
	t, err := readTypeName(l.at, rest)
	if err != nil {
		return err
	}
	if l.ended && t == (typeName{}) && (l.items > 0 || l.collects && l.hasItems) {
		if len(l.untyped) > 0 {
			return l.at.errorf("a list whose items do not say what they are, with apiVersion and kind: write the objects with -o yaml")
		}
		t = anyList // without the other fields of the list, as jq '{items}' leaves it
	}
	isList := isListKind(t.kind)
	of := byType[itemType(t)]
	switch {
	case l.items > 0 && t.kind == "":
		l.c.dropLast()
		return l.at.errorf("a list that does not say its kind: the file was cut off")
	case l.items > len(l.untyped) && !isList:
		return l.at.errorf("%s has Kubernetes objects as its items, but is no list", plain(t.kind))
	case !l.hasItems && (t.kind == "List" || of != nil):
		return l.at.errorf("%s without items: the file was cut off", plain(t.kind))
	case l.odd != nil && isList:
		return l.odd.errorf("items must be a list")
	case l.items == 0 && !isList, len(l.untyped) > 0 && !isList:
		// An object of a foreign kind with a field named items.
		return l.c.object(l.at, t, rest)
	}
	if t == anyList {
		l.c.lists[""]++
		if kind := cmp.Or(kindByFile(l.at.file), collectedKind(rest), listed); kind != "" && l.items == 0 {
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
		l.c.dumped = true // only a dump contains such a list
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
			ResourceVersion    string `json:"resourceVersion"`
		} `json:"metadata"`
		Continue   string // of a collection, as is Pagination
		Pagination struct{ Next string }
	}
	if err := json.Unmarshal(rest, &head); err != nil {
		return l.at.errorf("%s", plain(whyUndecodable(err)))
	}
	p := page{items: l.items, remaining: head.Metadata.RemainingItemCount,
		isFollowed: head.Metadata.Continue != "" || head.Metadata.RemainingItemCount > 0 || l.collects && (head.Continue != "" || head.Pagination.Next != "")}
	kinds := l.kinds
	if of != nil {
		p.version = head.Metadata.ResourceVersion
	} else if p.isFollowed {
		kinds = Kinds() // a list of any kind does not say which kind the next page has
	}
	for _, kind := range kinds {
		l.c.pages[kind] = append(l.c.pages[kind], p)
	}
	return nil
}

// page is a list as it came in one answer of an API server.
type page struct {
	// version is the list's resourceVersion, which all pages of a list share; "" if it is not known.
	version string
	items   int
	// isFollowed reports whether the server has more pages, and remaining is the number of objects on them; 0
	// if that is not known.
	isFollowed bool
	remaining  int64
}

// isTruncated reports whether a page of the kind is missing. Nothing in the last page of a list tells that the
// pages before it are missing, and nothing in the others how many follow, unless one counts their objects.
func (c *collector) isTruncated(kind Kind) bool {
	for _, p := range c.pages[kind] {
		if p.isFollowed && !c.isContinued(kind, p.version) {
			return true
		}
	}
	return false
}

// isPaged reports whether the lists of the kind are all pages of one list.
func (c *collector) isPaged(kind Kind) bool {
	version := c.pages[kind][0].version
	return !slices.ContainsFunc(c.pages[kind], func(p page) bool { return p.version != version }) && c.isContinued(kind, version)
}

// isContinued reports whether all pages of the list are there.
func (c *collector) isContinued(kind Kind, version string) bool {
	items, most, atMost, hasLast := int64(0), int64(0), int64(0), false
	for _, p := range c.pages[kind] {
		if version == "" || p.version != version {
			continue
		}
		items += int64(p.items)
		hasLast = hasLast || !p.isFollowed
		if p.remaining > most {
			most, atMost = p.remaining, int64(p.items)
		}
	}
	return hasLast && most > 0 && items == atMost+most
}

// readTypeName reads only these two fields, because an object of an unknown kind may contain
// anything else.
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

// rest is the remainder of a text. A reader that has read too far puts back the part that belongs
// to the next reader.
type rest struct {
	ahead []byte
	r     io.Reader
}

func (r *rest) Read(p []byte) (int, error) {
	if len(r.ahead) > 0 {
		n := copy(p, r.ahead)
		r.ahead = r.ahead[n:]
		return n, nil
	}
	return r.r.Read(p)
}

// putBack puts the text before the part that in, which reads from r, has buffered.
func (r *rest) putBack(text []byte, in *bufio.Reader) {
	held, _ := in.Peek(in.Buffered())
	r.ahead = slices.Concat(text, held, r.ahead)
	in.Reset(r)
}

// beginsJSON distinguishes JSON from YAML, and an array from a prompt such as "[root@n1 ~]#".
func beginsJSON(head []byte) bool {
	head = bytes.TrimSpace(head)
	if bytes.HasPrefix(head, []byte("[")) {
		head = bytes.TrimSpace(head[1:])
		return len(head) == 0 || bytes.ContainsRune([]byte("{[]\""), rune(head[0]))
	}
	return bytes.HasPrefix(head, []byte("{")) && !bytes.HasPrefix(head, []byte("{{")) && !isMacro(head)
}

// isMacro reports whether the line is a mark around code in Jira.
func isMacro(line []byte) bool {
	return bytes.HasPrefix(line, []byte("{code")) || bytes.HasPrefix(line, []byte("{noformat")) || bytes.HasPrefix(line, []byte("{panel"))
}
