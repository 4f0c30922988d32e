package snapshot

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// longestName is how long a YAML parser lets a name be that stands on one line
// with its value.
const longestName = 1000

// blockWriter writes what the JSON of a value says as YAML of the shape that
// kubectl prints: a field a line, the fields of a map in order. A large cluster
// has a quarter of a million objects, and a library that makes a tree of each
// takes many times as long. Of YAML's scalars it uses two: plain words that
// nothing could take for anything else, and texts quoted as JSON quotes them.
type blockWriter struct {
	json    bytes.Buffer
	encoder *json.Encoder
	members []member // of the maps that are being written
	out     []byte
}

// member is a field of a map as JSON: the quoted name, and the value.
type member struct{ name, value []byte }

func newBlockWriter() *blockWriter {
	w := &blockWriter{}
	w.encoder = json.NewEncoder(&w.json)
	w.encoder.SetEscapeHTML(false)
	return w
}

// document gives the text of what is an object in JSON. The next call
// overwrites it.
func (w *blockWriter) document(value any) ([]byte, error) {
	w.json.Reset()
	if err := w.encoder.Encode(value); err != nil {
		return nil, err
	}
	raw := bytes.TrimSuffix(w.json.Bytes(), []byte("\n"))
	if raw[0] != '{' {
		return nil, fmt.Errorf("a %T is no object in JSON", value)
	}
	w.out = w.out[:0]
	w.object(raw, 0)
	return w.out, nil
}

// object writes the fields of an object, the first of them where the line
// stands. The JSON is the encoder's own: without blanks, and sound.
func (w *blockWriter) object(raw []byte, indent int) {
	first := len(w.members)
	for rest := raw[1:]; rest[0] != '}'; {
		if rest[0] == ',' {
			rest = rest[1:]
		}
		name := rest[:endOf(rest)]
		rest = rest[len(name)+1:] // and the colon
		value := rest[:endOf(rest)]
		rest = rest[len(value):]
		w.members = append(w.members, member{name, value})
	}
	fields := w.members[first:]
	slices.SortFunc(fields, func(a, b member) int { return bytes.Compare(inner(a.name), inner(b.name)) })
	for i, field := range fields {
		if i > 0 {
			w.indent(indent)
		}
		w.name(field.name, indent)
		switch {
		case isEmpty(field.value), field.value[0] != '{' && field.value[0] != '[':
			w.out = append(w.out, ' ')
			w.scalar(field.value)
		case field.value[0] == '{':
			w.out = append(w.out, '\n')
			w.indent(indent + 2)
			w.object(field.value, indent+2)
		default: // kubectl sets a list no deeper than its name
			w.out = append(w.out, '\n')
			w.indent(indent)
			w.list(field.value, indent)
		}
	}
	w.members = w.members[:first]
}

func (w *blockWriter) name(quoted []byte, indent int) {
	at := len(w.out)
	w.text(quoted)
	if len(w.out)-at > longestName {
		w.out = append(slices.Insert(w.out, at, '?', ' '), '\n')
		w.indent(indent)
	}
	w.out = append(w.out, ':')
}

func (w *blockWriter) list(raw []byte, indent int) {
	for i, rest := 0, raw[1:]; rest[0] != ']'; i++ {
		if rest[0] == ',' {
			rest = rest[1:]
		}
		value := rest[:endOf(rest)]
		rest = rest[len(value):]
		if i > 0 {
			w.indent(indent)
		}
		w.out = append(w.out, "- "...)
		switch {
		case isEmpty(value), value[0] != '{' && value[0] != '[':
			w.scalar(value)
		case value[0] == '{':
			w.object(value, indent+2)
		default:
			w.list(value, indent+2)
		}
	}
}

func (w *blockWriter) indent(n int) {
	for range n {
		w.out = append(w.out, ' ')
	}
}

// scalar ends its line.
func (w *blockWriter) scalar(raw []byte) {
	if raw[0] == '"' {
		w.text(raw)
	} else {
		w.out = append(w.out, raw...)
	}
	w.out = append(w.out, '\n')
}

// text writes a quoted text, without its quotes where it needs none.
func (w *blockWriter) text(quoted []byte) {
	if inner := inner(quoted); isPlain(inner) {
		w.out = append(w.out, inner...)
		return
	}
	if !slices.ContainsFunc(quoted, func(b byte) bool { return b < ' ' || b > '~' }) {
		w.out = append(w.out, quoted...)
		return
	}
	for _, r := range string(quoted) {
		switch {
		case unicode.IsPrint(r):
			w.out = append(w.out, string(r)...)
		case r > 0xffff: // which JSON would write as two, and YAML has no two for
			w.out = fmt.Appendf(w.out, `\U%08x`, r)
		default:
			w.out = fmt.Appendf(w.out, `\u%04x`, r)
		}
	}
}

func inner(quoted []byte) []byte { return quoted[1 : len(quoted)-1] }

// isPlain says that a text means itself without quotes to every YAML parser:
// words and paths that do not begin like a number, and are no word for true,
// false or nothing.
func isPlain(text []byte) bool {
	if len(text) == 0 || !isLetter(text[0]) && text[0] != '/' || text[len(text)-1] == ':' {
		return false
	}
	for _, b := range text {
		if !isLetter(b) && (b < '0' || b > '9') && strings.IndexByte("-_./:^", b) < 0 {
			return false
		}
	}
	if len(text) > len("false") {
		return true
	}
	switch string(bytes.ToLower(text)) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return false
	}
	return true
}

func isLetter(b byte) bool { return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' }

func isEmpty(raw []byte) bool { return string(raw) == "{}" || string(raw) == "[]" }

// endOf is where the value ends that the JSON begins with.
func endOf(raw []byte) int {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			depth--
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return len(raw)
}
