package snapshot

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/json"
)

// text reads one file that is not packed.
func (c *collector) text(name string, r io.Reader) error {
	in := bufio.NewReaderSize(r, 64<<10)
	before := c.total
	if err := c.documents(name, in); err != nil {
		return err
	}
	return c.checkCount(name, c.total-before)
}

func (c *collector) documents(name string, in *bufio.Reader) error {
	at := place{file: name, line: 1}
	head, err := in.Peek(512)
	if err != nil && err != io.EOF {
		return at.errorf("%w", err)
	}
	switch {
	case bytes.HasPrefix(head, []byte("\xff\xfe")), bytes.HasPrefix(head, []byte("\xfe\xff")):
		return at.errorf("UTF-16 text (older PowerShell writes it); convert it to UTF-8")
	case bytes.IndexByte(head, 0) >= 0:
		return at.errorf("binary data, neither YAML nor JSON")
	case bytes.HasPrefix(head, []byte("\xef\xbb\xbf")):
		_, _ = in.Discard(3)
		head = head[3:]
	}
	if bytes.HasPrefix(bytes.TrimSpace(head), []byte("{")) {
		return c.jsonDocuments(in, at)
	}
	return c.yamlDocuments(in, at)
}

// list is a document while it is read: a list, as long as it has items. They
// are taken one by one, so that the list of all pods of a cluster need not be
// held.
type list struct {
	c                *collector
	at               place
	apiVersion, kind string // "" until read: kubectl writes them after the items
	items            int
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

// item takes an item, which must be JSON and may have been read from line.
func (l *list) item(line int, raw []byte) error {
	l.items++
	at := l.at.atLine(line)
	at.item = l.items
	t, err := readTypeName(at, raw)
	if err != nil && l.kind != "" {
		return err
	}
	if l.kind == "" && (t.kind == "" || t.apiVersion == "") {
		l.untypedSize += int64(len(raw))
		if l.untypedSize > l.c.limits.untyped {
			return at.errorf("a list of more than %s whose items do not say their kind; write it as JSON", size(l.c.limits.untyped))
		}
		l.untyped = append(l.untyped, untypedItem{at, raw})
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
	if s := schemaOf(t); s != nil && !slices.Contains(l.kinds, s.resource) {
		l.kinds = append(l.kinds, s.resource)
	}
	return l.c.object(at, t, raw)
}

func isListKind(kind string) bool { return strings.HasSuffix(kind, "List") }

// end takes what the document holds beside its items.
func (l *list) end(rest []byte) error {
	t, err := readTypeName(l.at, rest)
	if err != nil {
		return err
	}
	isList := isListKind(t.kind)
	switch {
	case l.items > 0 && t.kind == "":
		return l.at.errorf("a list that does not say its kind: the file was cut off")
	case l.odd != nil && isList:
		return l.odd.errorf("items must be a list")
	case l.items == 0 && !isList, len(l.untyped) > 0 && !isList:
		// A kind of its own whose field happens to be called items.
		return l.c.object(l.at, t, rest)
	}
	l.c.listed++
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
			Continue string `json:"continue"`
		} `json:"metadata"`
	}
	if err := json.Unmarshal(rest, &head); err != nil {
		return l.at.errorf("%s", decodeMessage(err))
	}
	if head.Metadata.Continue != "" {
		// One page of a list that was asked for in pages.
		if s := schemaOf(typeName{l.apiVersion, strings.TrimSuffix(l.kind, "List")}); s != nil {
			l.kinds = append(l.kinds, s.resource)
		}
		for _, kind := range l.kinds {
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
	if err := json.Unmarshal(raw, &head); err != nil {
		return typeName{}, at.errorf("%s", decodeMessage(err))
	}
	return typeName{head.APIVersion, head.Kind}, nil
}

// errTooLarge is told with the place and the limit by whoever knows them.
var errTooLarge = errors.New("too large")

func (c *collector) tooLarge(at place) error {
	return at.errorf("more than %s in one piece, which no API object has", size(c.limits.document))
}
