package snapshot

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/archive"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/yamljson"
)

// yamlReader splits YAML into documents, and lists into their items, only by the indentation of
// lines. A parser wants the entire list at once, and for all pods of a cluster it would need a
// hundred times their size. A split where a parser would not split, for example within a quoted
// text that continues at the margin, leads to an error later, never to another meaning. No program
// that writes Kubernetes objects writes such texts.
type yamlReader struct {
	c    *collector
	in   *bufio.Reader
	at   place // the place of the document
	line int   // the number of the line that was read last
	*yamlBuffers

	begin   int // the line on which the document begins
	cut     int // the number of its lines before the items
	cutSize int // the number of lines of the items

	isOpen bool   // the line that was read last has no end
	marked bool   // the end marker follows what was read
	inLogs bool   // within the logs of a container, in a dump
	asked  string // the kinds in the last command of kubectl, as it names them

	state     itemState
	list      *list
	indent    int // the indentation of the items' dashes
	itemBegin int
}

// yamlBuffers are reused for each text.
type yamlBuffers struct {
	scan []byte // a line that is longer than the reader's buffer
	text []byte // the text of the document, without the items that were cut out
	fast yamljson.Converter
}

type itemState int

const (
	noItems    itemState = iota
	afterItems           // the line "items:" was read
	inItems
	itemsDone
)

// yamlDocuments reads documents up to the end, or, in a pasted text, up to the beginning of JSON.
// The place at is before the first document; next is the place before the JSON.
func (c *collector) yamlDocuments(at place) (next *place, ended bool, err error) {
	y := &yamlReader{c: c, in: c.in, at: at, line: at.line - 1, yamlBuffers: &c.yaml}
	y.text = y.text[:0] // discards what an unreadable text has left
	for {
		line, err := y.readLine()
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, false, c.earliest(err)
		}
		if c.pasted && !y.inLogs && y.state == noItems && len(y.text) == 0 && isBracket(line) {
			next := y.at.atLine(y.line)
			c.rest.putBack(bytes.Clone(line), c.in)
			return &next, false, c.endItems()
		}
		if len(line) > 0 {
			if err := y.take(line); err != nil {
				return nil, false, c.earliest(err)
			}
		}
		if err != nil {
			err := y.endText()
			return nil, y.marked, c.earliest(err)
		}
	}
}

// isBracket reports whether the line is the first of a JSON document of several lines.
func isBracket(line []byte) bool {
	line = trimBlanks(line)
	return len(line) == 1 && (line[0] == '{' || line[0] == '[')
}

// endText ends the last document.
func (y *yamlReader) endText() error {
	if y.state == afterItems {
		return y.here().errorf("the list ends before its first item: the file was cut off")
	}
	if y.state == noItems && !y.c.pasted && bytes.HasSuffix(trimBlanks(y.text), []byte(":")) {
		return y.here().errorf("the YAML ends before the value of a field: the file was cut off")
	}
	isOpen := y.isOpen && (y.state == inItems || y.state == noItems && len(y.text) > 0 && y.text[0] != '{') && !y.c.pasted
	if y.state == noItems {
		y.c.last = added{}
	}
	if err := y.endDocument(); err != nil {
		return err
	}
	if last := y.c.last; isOpen && last.row != nil {
		y.c.broken[last.key.kind] = Gap{Kind: last.key.kind, Reason: ReasonTruncated,
			Detail: fmt.Sprintf("the file ends in the middle of a line of %s %s: was it cut off?", last.row.Object, last.key)}
	}
	return nil
}

// readLine returns a line including its end, valid until the next call. At the end of the stream it
// also returns io.EOF.
func (y *yamlReader) readLine() ([]byte, error) {
	y.line++
	line, err := y.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		y.scan = y.scan[:0]
		for errors.Is(err, bufio.ErrBufferFull) && int64(len(y.scan)) <= y.c.limits.document {
			y.scan = append(y.scan, line...)
			line, err = y.in.ReadSlice('\n')
		}
		y.scan = append(y.scan, line...)
		line = y.scan
	}
	y.isOpen = len(line) > 0 && err == io.EOF
	switch {
	case int64(len(line)) > y.c.limits.document:
		return nil, y.c.tooLarge(y.here())
	case err != nil && err != io.EOF:
		return nil, y.here().errorf("%w", err)
	case !utf8.Valid(line):
		return nil, y.here().errorf("not UTF-8 text")
	}
	return line, err
}

// here returns the place of the line that was read last, in its document.
func (y *yamlReader) here() place {
	at := y.at.atLine(y.line)
	at.document++
	if y.state == inItems {
		at.item = y.list.items + y.c.queued() + 1
	}
	return at
}

// take adds a line to the document or to the current item, or ends them.
func (y *yamlReader) take(line []byte) error {
	if y.state == inItems && len(line) > y.indent && len(bytes.TrimLeft(line[:y.indent+1], " ")) == 0 {
		// Nearly all lines of a long list are indented like this, and belong to the item whatever
		// they contain.
		y.cutSize++
		return y.add(&y.c.item().text, line)
	}
	if (y.state == noItems || y.state == itemsDone) && len(y.text) > 0 && line[0] == ' ' {
		return y.add(&y.text, line) // nearly all lines of an object are like this
	}
	line = bytes.TrimPrefix(line, byteOrderMark) // the mark at the beginning of a file that was appended to another
	if len(line) == 0 {
		return nil
	}
	if y.passes(line) {
		y.c.pasted = true
		return y.endDocument()
	}
	if len(y.text) > 0 && 'A' <= line[0] && line[0] <= 'Z' && !bytes.Contains(line, []byte(":")) {
		if err := forPeople(line); err != nil {
			return y.here().errorf("%w", err)
		}
	}
	if bytes.HasPrefix(line, apiVersionField) && bytes.HasPrefix(y.text, apiVersionField) {
		// The outputs of two calls of kubectl without a separator.
		if err := y.endDocument(); err != nil {
			return err
		}
	}
	if rest, ok := marker(line, "---"); ok {
		y.marked = false
		if err := y.endDocument(); err != nil {
			return err
		}
		line = rest
	} else if rest, ok := marker(line, endMarker); ok {
		if err := y.endDocument(); err != nil {
			return err
		}
		line = rest
		y.marked = true
	}
	content := bytes.TrimLeft(line, " ")
	indent := len(line) - len(content)
	blank := (len(trimBlanks(content)) == 0 || content[0] == '#') && oneLine(line)
	directive := bytes.HasPrefix(line, []byte("%")) && oneLine(line) // for example %YAML 1.2
	dash := !blank && content[0] == '-' && (len(content) == 1 || strings.IndexByte(" \t\r\n", content[1]) >= 0)

	if y.marked && !blank && !directive {
		return y.here().errorf("after the line %q a document must begin with ---", endMarker)
	}
	y.marked = y.marked && (blank || directive)
	switch {
	case blank: // part of whatever surrounds it
	case y.state == noItems && indent == 0 && isItemsLine(line):
		y.state = afterItems
	case y.state == afterItems && dash:
		if err := y.beginItems(indent); err != nil {
			return err
		}
	case y.state == afterItems: // not one item per line: left to the parser
		y.state = itemsDone
	case y.state == inItems && (indent < y.indent || indent == y.indent && !dash):
		if err := y.endList(); err != nil {
			return err
		}
	}
	if y.state == inItems {
		if dash && indent == y.indent {
			if err := y.endItem(); err != nil {
				return err
			}
			y.itemBegin = y.line
		}
		y.cutSize++
		return y.add(&y.c.item().text, line)
	}
	if len(y.text) == 0 {
		if blank || directive {
			if bytes.ContainsFunc(line, isNoYAML) {
				return y.here().errorf("not YAML: control characters are not allowed")
			}
			return nil
		}
		y.begin = y.line
	}
	return y.add(&y.text, line)
}

func (y *yamlReader) add(text *[]byte, line []byte) error {
	if int64(len(*text)+len(line)) > y.c.limits.document {
		return y.c.tooLarge(y.here())
	}
	*text = append(*text, line...)
	return nil
}

var apiVersionField = []byte("apiVersion:")

// marker reports whether a line begins with a marker between documents. It returns the rest of the
// line.
func marker(line []byte, mark string) (rest []byte, ok bool) {
	rest, ok = bytes.CutPrefix(line, []byte(mark))
	if !ok || len(rest) > 0 && strings.IndexByte(" \t\r\n", rest[0]) < 0 {
		return nil, false
	}
	return rest, true
}

// isItemsLine reports whether the items of a list follow the line. The line itself stays in the
// document, so that a second one is a duplicate there.
func isItemsLine(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("items:"))
	rest = trimBlanks(rest)
	return ok && (len(rest) == 0 || rest[0] == '#')
}

// isNoYAML reports whether the character is not allowed anywhere in YAML, not even in a comment.
func isNoYAML(r rune) bool {
	return unicode.IsControl(r) && !strings.ContainsRune("\t\r\n\u0085", r) || r == '\ufeff' || r == '\ufffe' || r == '\uffff'
}

// otherLineEnds are further characters that end a line, and with it a comment, for the parser.
const otherLineEnds = "\r\u0085\u2028\u2029"

// oneLine reports whether the line is one for the parser too.
func oneLine(line []byte) bool {
	return !bytes.ContainsAny(bytes.TrimRight(line, "\r\n"), otherLineEnds)
}

// trimBlanks removes blanks around the text, but not form feeds and no-break spaces, which YAML
// treats as content.
func trimBlanks(text []byte) []byte { return bytes.Trim(text, " \t\r\n") }

// errTemplate is the error for a template of a program such as Helm.
var errTemplate = errors.New("a template, and no object: write the objects of the cluster with -o yaml")

// isTemplate reports whether the text is a template: it has what a program is to replace, and nothing
// that only an API server writes.
func isTemplate(text []byte) bool {
	return bytes.Contains(text, []byte("{{")) && !bytes.Contains(text, []byte("uid")) && !bytes.Contains(text, []byte("resourceVersion"))
}

// endDocument reads the document that was gathered.
func (y *yamlReader) endDocument() error {
	if y.state == inItems {
		if err := y.endList(); err != nil {
			return err
		}
	}
	defer func() {
		y.text, y.state, y.list, y.cut, y.cutSize = y.text[:0], noItems, nil, 0, 0
	}()
	if len(y.text) == 0 {
		return nil
	}
	y.at.document++
	at := y.at.atLine(y.begin)
	if y.list == nil && bytes.HasPrefix(y.text, []byte("Name:")) {
		if err := forPeople(y.text); err != nil {
			return at.errorf("%w", err)
		}
	}
	if y.list == nil && y.text[0] == '{' {
		return y.queue(at)
	}
	if err := y.c.endItems(); err != nil {
		return err
	}
	return y.document(at)
}

// queue ends a document that begins like JSON. A file of our own is made of them.
func (y *yamlReader) queue(at place) error {
	item := y.c.item()
	item.document, item.begin, item.end = at.document, at.line, y.line
	item.text, y.text = y.text, item.text
	item.raw = item.text
	return y.c.endItem(y, len(item.text))
}

// takeDocument adds a document that was queued.
func (y *yamlReader) takeDocument(item *itemText) error {
	at := y.at.atLine(item.begin)
	at.document = item.document
	if item.object != nil && !hasItems(item.raw) {
		return y.c.take(at, item.of, item.raw, item.object)
	}
	one := yamlReader{c: y.c, at: y.at, line: item.end, begin: item.begin, yamlBuffers: &yamlBuffers{text: item.text}}
	return one.document(at)
}

// document reads a document that was gathered.
func (y *yamlReader) document(at place) error {
	if y.list == nil && json.Valid(y.text) && string(trimBlanks(y.text)) != "null" {
		return y.object(at, y.text)
	}
	if y.list == nil {
		if raw, ok := usualText(y.text, &y.fast, y.fast.Document, y.c.limits); ok {
			return y.object(at, raw)
		}
	}
	value, err := y.parse(y.text, at, func(line int) int {
		if y.list != nil && line > y.cut {
			line += y.cutSize
		}
		return y.begin + line - 1
	})
	if err != nil && y.list == nil && isTemplate(y.text) {
		return at.errorf("%w", errTemplate)
	}
	if err != nil {
		return err
	}
	if value == nil {
		return nil
	}
	if items, ok := value.([]any); ok && y.list == nil {
		raw, err := yamljson.JSON(items, y.c.limits.document)
		if err != nil {
			return y.conversionFailed(at, err)
		}
		return y.c.jsonText(raw, at)
	}
	fields, ok := value.(map[any]any)
	if !ok {
		if err := forPeople(y.text); err != nil {
			return at.errorf("%w", err)
		}
		return at.errorf("not an object")
	}
	if y.list != nil {
		// The text has the line of the items, but not the items.
		if rest, ok := fields["items"]; !ok || rest != nil {
			return at.errorf("the items of the list do not stand below each other")
		}
		delete(fields, "items")
	}
	raw, err := yamljson.JSON(fields, y.c.limits.document)
	if err != nil {
		return y.conversionFailed(at, err)
	}
	if y.list != nil {
		return y.list.end(raw)
	}
	return y.object(at, raw)
}

// object reads a document that is one JSON object.
func (y *yamlReader) object(at place, raw []byte) error {
	if s, object := y.c.usual(raw); object != nil && !hasItems(raw) {
		return y.c.take(at, s, raw, object)
	}
	return y.c.jsonText(raw, at)
}

// escaped matches what an HTML page has in place of some characters.
var escaped = regexp.MustCompile(`&(quot|apos|lt|gt|amp|#x27|#39|#34);`)

// yamlLine matches the place in the parser's messages.
var yamlLine = regexp.MustCompile(`line (\d+): `)

func tooLong(text []byte, limits limits) bool {
	return bytes.Count(text, []byte("\n"))+bytes.Count(text, []byte(",")) > limits.yamlValues
}

func (y *yamlReader) parse(text []byte, at place, lineOf func(int) int) (any, error) {
	if tooLong(text, y.c.limits) {
		return nil, at.errorf("more than %d lines and commas in one piece", y.c.limits.yamlValues)
	}
	value, err := yamljson.Parse(text)
	if err == nil {
		return value, nil
	}
	// Keep only the first of several errors, and of that the message and the line.
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	message = strings.TrimSpace(strings.TrimPrefix(message, "unmarshal errors:"))
	message, _, _ = strings.Cut(message, "\n")
	if m := yamlLine.FindStringSubmatch(message); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			at.line = min(lineOf(n), y.line) // the parser reports the end as the line after it
		}
		message = strings.Replace(message, m[0], "", 1)
	}
	switch {
	case strings.Contains(message, "unknown anchor") && at.item > 0:
		return nil, at.errorf("%s: the anchor is in another item: write each item without anchors, or all of it as JSON", plain(message))
	case escaped.Match(text):
		return nil, at.errorf("HTML, and not YAML: give the text as a browser shows it, or the file that kubectl wrote")
	}
	if strings.Contains(message, "find ") || strings.Contains(message, "found ") || strings.Contains(message, "mapping values") {
		message += ": give the file that kubectl wrote, which no editor and no messenger has changed"
	}
	return nil, at.errorf("not YAML: %s", plain(message))
}

func (y *yamlReader) conversionFailed(at place, err error) error {
	if errors.Is(err, yamljson.ErrTooLarge) {
		return at.errorf("expands to more than %s", archive.Size(y.c.limits.document))
	}
	return at.errorf("%s", plain(fmt.Sprint(err)))
}
