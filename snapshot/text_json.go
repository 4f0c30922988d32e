package snapshot

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/yamljson"
)

// jsonReader splits JSON documents and keeps track of the lines.
type jsonReader struct {
	c   *collector
	dec *json.Decoder
	in  *countingReader
	at  place // the place of the document
	// batched reports whether items are decoded in batches; not so in a text that is itself an item.
	batched bool
	list    *list // of the items in the batches
}

// countingReader counts lines, and fails if a piece grows too large.
type countingReader struct {
	r     io.Reader
	lines int
	// piece is the number of bytes that were read since the last piece was complete.
	piece, limit int64
}

func (r *countingReader) Read(p []byte) (int, error) {
	// The bytes that a decoder has read ahead are searched for lines at every item, so there must
	// be few.
	const most = 32 << 10
	if r.piece > r.limit+most {
		return 0, yamljson.ErrTooLarge
	}
	n, err := r.r.Read(p[:min(len(p), most)])
	r.lines += bytes.Count(p[:n], []byte("\n"))
	r.piece += int64(n)
	return n, err
}

// jsonDocuments reads JSON objects and arrays one after the other until something else follows. It
// returns the place before that as next, or nil at the end. It sets ended if the text shows that it
// is complete: a single document in a file of its own, one of several files. In any other text,
// more documents may have followed.
func (c *collector) jsonDocuments(at place) (next *place, ended bool, err error) {
	in := &countingReader{r: c.in, limit: c.limits.document, lines: at.line - 1}
	j := &jsonReader{c: c, dec: json.NewDecoder(in), in: in, at: at, batched: true}
	for {
		in.piece = 0
		more := j.dec.More()
		ahead, _ := io.ReadAll(j.dec.Buffered())
		ahead = bytes.TrimLeft(ahead, " \t\r\n")
		if len(ahead) > 0 && ahead[0] != '{' && (ahead[0] != '[' || !beginsJSON(ahead)) {
			next := j.at.atLine(j.in.lines + 1 - bytes.Count(ahead, []byte("\n")))
			c.rest.putBack(ahead, c.in)
			return &next, false, nil
		}
		if !more && len(ahead) == 0 {
			// More does not distinguish the end from an error of the reader; Token does.
			if _, err := j.dec.Token(); err != io.EOF {
				return nil, false, j.failed(err)
			}
			return nil, j.at.document == 1 && j.c.oneOfMany, nil
		}
		j.at.document++
		if err := j.document(); err != nil {
			return nil, false, c.earliest(err)
		}
	}
}

// jsonText reads one JSON object within a YAML document.
func (c *collector) jsonText(text []byte, at place) error {
	in := &countingReader{r: bytes.NewReader(text), limit: c.limits.document, lines: at.line - 1}
	j := &jsonReader{c: c, dec: json.NewDecoder(in), in: in, at: at}
	return j.document()
}

// document reads an object field by field, so that the items of a list are never held together.
func (j *jsonReader) document() error {
	first, err := j.dec.Token()
	if err != nil {
		return j.failed(err)
	}
	j.at.line = j.line()
	switch first {
	case json.Delim('['):
		return j.array()
	case json.Delim('{'):
	default:
		return j.at.errorf("not an object")
	}
	l := &list{c: j.c, at: j.at}
	rest := []byte("{")
	listed, seen := false, map[string]bool{}
	for j.dec.More() {
		key, err := j.dec.Token()
		if err != nil {
			return j.failed(err)
		}
		name, _ := key.(string)
		if name == "data" && l.collects && !listed {
			l.hasItems, listed = true, true
			if err := j.items(l); err != nil {
				return err
			}
			continue
		}
		if name == "items" && (l.kind == "" || isListKind(l.kind)) {
			if listed {
				return j.at.atLine(j.line()).errorf("duplicate field \"items\"")
			}
			listed = true
			l.hasItems = true
			if err := j.items(l); err != nil {
				return err
			}
			continue
		}
		raw, _, err := j.value(nil)
		if err != nil {
			return err
		}
		if seen[name] {
			return j.at.atLine(j.line()).errorf("duplicate field %q", plain(name))
		}
		switch name {
		case "kind", "apiVersion", "metadata":
			seen[name] = true
		}
		switch name { // a value that is not a string stays "", and rest reports it later
		case "type":
			l.collects = l.kind == "" && string(raw) == `"collection"`
		case "kind":
			_ = json.Unmarshal(raw, &l.kind)
		case "apiVersion":
			_ = json.Unmarshal(raw, &l.apiVersion)
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return j.failed(err)
		}
		rest = append(append(append(rest, quoted...), ':'), raw...)
		if int64(len(rest)) > j.c.limits.document {
			return j.c.tooLarge(j.at)
		}
	}
	if _, err := j.dec.Token(); err != nil { // the closing brace
		return j.failed(err)
	}
	l.ended = true
	return l.end(append(rest, '}'))
}

// items reads the value of a list's field "items".
func (j *jsonReader) items(l *list) error {
	first, err := j.dec.Token()
	switch {
	case err != nil:
		return j.failed(err)
	case first == nil: // Go writes null for an empty list
		return nil
	case first != json.Delim('['):
		odd := j.at.atLine(j.line())
		l.odd = &odd
		return j.skip(first)
	}
	return j.itemsOf(l)
}

// array reads a list that consists only of its items, as jq prints it.
func (j *jsonReader) array() error {
	l := &list{c: j.c, at: j.at, apiVersion: anyList.apiVersion, kind: anyList.kind}
	if of := j.c.items; of.kind != "" {
		l.apiVersion, l.kind = of.apiVersion, of.kind+"List"
	}
	j.c.lists[""]++
	return j.itemsOf(l)
}

// itemsOf reads items up to and including the closing bracket.
func (j *jsonReader) itemsOf(l *list) error {
	if j.batched {
		j.list = l
	}
	for j.dec.More() {
		j.in.piece = 0
		at := l.at
		at.item = l.items + 1
		if j.batched {
			at.item += j.c.queued()
		}
		j.at = at
		if err := j.item(l); err != nil {
			return err
		}
	}
	if _, err := j.dec.Token(); err != nil { // the closing bracket
		return j.failed(err)
	}
	j.at = l.at
	if j.batched {
		return j.c.endItems()
	}
	return nil
}

func (j *jsonReader) item(l *list) error {
	if !j.batched {
		raw, line, err := j.value(nil)
		if err != nil {
			return err
		}
		return l.item(line, raw)
	}
	item := j.c.item()
	raw, line, err := j.value(item.text)
	if err != nil {
		return err
	}
	item.text, item.raw, item.begin = raw, raw, line
	return j.c.endItem(j, len(raw))
}

func (j *jsonReader) takeItem(item *itemText) error {
	return j.list.decoded(item.begin, item.raw, item.of, item.object)
}

// skip skips the rest of the value that begins with the token.
func (j *jsonReader) skip(token json.Token) error {
	for depth := 0; ; {
		switch token {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
		var err error
		if token, err = j.dec.Token(); err != nil {
			return j.failed(err)
		}
	}
}

// value reads one value into the memory, and returns the line on which it begins.
func (j *jsonReader) value(memory json.RawMessage) (raw json.RawMessage, line int, err error) {
	raw = memory
	if err := j.dec.Decode(&raw); err != nil {
		return nil, 0, j.failed(err)
	}
	line = j.line() - bytes.Count(raw, []byte("\n"))
	if !utf8.Valid(raw) {
		return nil, 0, j.at.atLine(line + invalidLine(raw)).errorf("not UTF-8 text")
	}
	return raw, line, nil
}

// line returns the line of the decoder's position.
func (j *jsonReader) line() int {
	var ahead lineCounter
	// Neither a bytes.Reader nor a counter can fail.
	_, _ = io.Copy(&ahead, j.dec.Buffered())
	return j.in.lines + 1 - int(ahead)
}

type lineCounter int

func (c *lineCounter) Write(p []byte) (int, error) {
	*c += lineCounter(bytes.Count(p, []byte("\n")))
	return len(p), nil
}

// invalidLine returns the number of lines before the first byte that is not UTF-8.
func invalidLine(text []byte) int {
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && n == 1 {
			return bytes.Count(text[:i], []byte("\n"))
		}
		i += n
	}
	return 0
}

// failed turns a decoder's error into a message with its place.
func (j *jsonReader) failed(err error) error {
	if errors.Is(err, yamljson.ErrTooLarge) {
		return j.c.tooLarge(j.at.atLine(j.line()))
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return j.at.atLine(j.in.lines + 1).errorf("the JSON ends in the middle: the file was cut off")
	}
	if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok { // it contains the whole value
		return j.at.atLine(j.line()).errorf("%s", plain(err.Error()))
	}
	if _, ok := errors.AsType[*json.SyntaxError](err); !ok {
		return j.at.atLine(j.line()).errorf("%w", err)
	}
	// The decoder's own offset does not count what it read as tokens. The rest is decoded again to
	// find the line.
	ahead, _ := io.ReadAll(j.dec.Buffered())
	line := j.line()
	var skipped json.RawMessage
	var again *json.SyntaxError
	if errors.As(json.NewDecoder(bytes.NewReader(ahead)).Decode(&skipped), &again) {
		line += bytes.Count(ahead[:min(int(again.Offset), len(ahead))], []byte("\n"))
	}
	return j.at.atLine(line).errorf("not JSON: %s", plain(err.Error()))
}
