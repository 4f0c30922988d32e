package snapshot

import (
	"bytes"
	"unicode"
	"unicode/utf8"
)

// blockReader reads the YAML that blockWriter writes, and makes the JSON of it
// that the parser and jsonOf make by way of two trees. It either reads a document
// to its end or says that it is not such a one: then it is the parser's, with all
// that there is to say about it.
type blockReader struct {
	rest []byte // what follows the line
	// line is what is left of one, and empty at the end.
	line []byte
	// indent is how far right that begins.
	indent int
	depth  int
	out    []byte
}

// deepest is how deep maps and lists may stand in each other here; those of the
// API stand a dozen deep.
const deepest = 64

// document gives the JSON of an object, no list, and the type that it says it
// has. The next call overwrites it.
func (b *blockReader) document(text []byte) (raw []byte, t typeName, ok bool) {
	b.rest, b.out, b.depth = text, b.out[:0], 0
	ok = b.next() && b.indent == 0 && b.object(&t) && len(b.line) == 0
	return b.out, t, ok && t.apiVersion != "" && t.kind != ""
}

// next goes to the next line. It is false for one that cannot be.
func (b *blockReader) next() bool {
	if len(b.rest) == 0 {
		b.line, b.indent = nil, -1
		return true
	}
	line, rest, ended := bytes.Cut(b.rest, []byte("\n"))
	b.line, b.rest = bytes.TrimLeft(line, " "), rest
	b.indent = len(line) - len(b.line)
	return ended && len(b.line) > 0
}

func (b *blockReader) isItem() bool { return bytes.HasPrefix(b.line, []byte("- ")) }

// object reads the fields from here on that stand as deep as the first one. They
// must be in order, for then none is there twice. In the outermost one the type
// is looked for.
func (b *blockReader) object(t *typeName) bool {
	if b.depth++; b.depth > deepest {
		return false
	}
	var last []byte
	indent := b.indent
	b.out = append(b.out, '{')
	for b.indent == indent && !b.isItem() {
		name, value, ok := field(b.line)
		if !ok || last != nil && bytes.Compare(last, name) >= 0 {
			return false
		}
		if last != nil {
			b.out = append(b.out, ',')
		}
		last = name
		b.out = append(append(append(b.out, '"'), name...), '"', ':')
		at := len(b.out)
		if b.line = value; len(value) > 0 {
			ok = b.scalar()
		} else {
			ok = b.below(indent)
		}
		if !ok || t != nil && !t.note(string(name), b.out[at:]) {
			return false
		}
	}
	b.depth--
	b.out = append(b.out, '}')
	return last != nil && b.indent < indent
}

// note takes what the field says of the type. It is false for a list, which is
// read item by item.
func (t *typeName) note(name string, value []byte) bool {
	var of *string
	switch name {
	case "apiVersion":
		of = &t.apiVersion
	case "kind":
		of = &t.kind
	default:
		return name != "items"
	}
	if value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 {
		return false
	}
	*of = string(inner(value))
	return !isListKind(*of)
}

// below reads what stands on the lines after a name.
func (b *blockReader) below(indent int) bool {
	switch {
	case !b.next(), b.indent < indent:
		return false
	case b.isItem():
		return b.list()
	default:
		return b.indent > indent && b.object(nil)
	}
}

func (b *blockReader) list() bool {
	if b.depth++; b.depth > deepest {
		return false
	}
	indent := b.indent
	b.out = append(b.out, '[')
	for first := true; b.indent == indent && b.isItem(); first = false {
		if !first {
			b.out = append(b.out, ',')
		}
		b.line = b.line[len("- "):]
		b.indent += len("- ")
		var ok bool
		if b.isItem() {
			ok = b.list()
		} else if _, _, isField := field(b.line); isField {
			ok = b.object(nil)
		} else {
			ok = b.scalar()
		}
		if !ok {
			return false
		}
	}
	b.depth--
	b.out = append(b.out, ']')
	return b.indent <= indent
}

// field takes a line apart. A name with an escape in it has two spellings, and
// is left to the parser.
func field(line []byte) (name, value []byte, ok bool) {
	var rest []byte
	if n := textEnd(line); n > 0 {
		name, rest = inner(line[:n]), line[n:]
		if bytes.IndexByte(name, '\\') >= 0 || n > longestName {
			return nil, nil, false
		}
	} else {
		if n = bytes.Index(line, []byte(": ")); n < 0 {
			n = len(line) - 1
		}
		if n < 0 || !isPlain(line[:n]) {
			return nil, nil, false
		}
		name, rest = line[:n], line[n:]
	}
	if string(rest) == ":" {
		return name, nil, true
	}
	value, ok = bytes.CutPrefix(rest, []byte(": "))
	return name, value, ok && len(value) > 0
}

// scalar reads the rest of the line.
func (b *blockReader) scalar() bool {
	switch {
	case isPlain(b.line):
		b.out = append(append(append(b.out, '"'), b.line...), '"')
	case len(b.line) > 0 && textEnd(b.line) == len(b.line), isNumber(b.line):
		b.out = append(b.out, b.line...)
	default:
		switch string(b.line) {
		case "{}", "[]", "true", "false", "null":
			b.out = append(b.out, b.line...)
		default:
			return false
		}
	}
	return b.next()
}

// isNumber is true of whole numbers that everybody writes in the same way.
func isNumber(text []byte) bool {
	digits := bytes.TrimPrefix(text, []byte("-"))
	if len(digits) == 0 || len(digits) > 18 || digits[0] == '0' && len(text) > 1 {
		return false
	}
	for _, b := range digits {
		if b < '0' || b > '9' {
			return false
		}
	}
	return true
}

// textEnd is where a quoted text ends that means the same in JSON and in YAML. It
// is 0 where the line does not begin with one.
func textEnd(line []byte) int {
	if len(line) == 0 || line[0] != '"' {
		return 0
	}
	for i := 1; i < len(line); {
		switch c := line[i]; {
		case c == '"':
			return i + 1
		case c == '\\':
			n := escapeEnd(line[i:])
			if n == 0 {
				return 0
			}
			i += n
		case c < ' ' || c == 0x7f:
			return 0
		case c < utf8.RuneSelf:
			i++
		default:
			r, n := utf8.DecodeRune(line[i:])
			if !unicode.IsPrint(r) {
				return 0
			}
			i += n
		}
	}
	return 0
}

// escapeEnd is the length of an escape that both formats have. Half a character,
// which JSON knows, is none.
func escapeEnd(text []byte) int {
	switch {
	case len(text) > 1 && bytes.IndexByte([]byte(`"\bfnrt`), text[1]) >= 0:
		return 2
	case len(text) < 6 || text[1] != 'u':
		return 0
	}
	for _, c := range text[2:6] {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return 0
		}
	}
	if text[2] == 'd' && text[3] >= '8' {
		return 0
	}
	return 6
}
