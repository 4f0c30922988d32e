package yamljson

import (
	"bytes"
)

// token is the beginning of a line, or of the text after a key: a key, or the line to its
// end.
type token struct {
	text []byte // without the quotes of a key
	next int    // the place in the input of a key's colon, or of the line's end
	key  bool
	// quoted reports whether it is a key in quotes, which is a text whatever it contains.
	quoted bool
	// escapes reports whether JSON must escape something in it.
	escapes bool
}

// token reads a token. It is false for text that no program writes.
func (c *Converter) token() (token, bool) {
	switch c.in[c.pos] {
	case '"', '\'':
		if t, ok := c.quotedKey(); ok {
			return t, true
		}
		line := c.line()
		return token{text: line, next: c.pos + len(line)}, true
	case '|', '{', '[':
		line := c.line()
		return token{text: line, next: c.pos + len(line)}, true
	}
	return c.plain()
}

// odd are the bytes that are left to the parser: all but printable ASCII. A line's end is
// among them.
var odd = func() (odd [256]bool) {
	for b := range odd {
		odd[b] = b < ' ' || b >= 0x7f
	}
	return odd
}()

// special are the bytes that may have a meaning outside quotes, or are odd.
var special = func() [256]bool {
	special := odd
	for _, b := range ":#\"\\" {
		special[b] = true
	}
	return special
}()

// isUsual reports whether the text has no odd byte.
func isUsual(text []byte) bool {
	for _, b := range text {
		if odd[b] {
			return false
		}
	}
	return true
}

// marks are the bytes with which an unquoted text cannot begin.
var marks = func() (marks [256]bool) {
	for _, b := range "&*!|>%@`{}[],?:\"' " {
		marks[b] = true
	}
	return marks
}()

// plain reads what has no quotes.
func (c *Converter) plain() (t token, ok bool) {
	start := c.pos
	for i := start; ; i++ {
		for !special[c.in[i]] {
			i++
		}
		switch c.in[i] {
		case '"', '\\':
			t.escapes = true
			continue
		case '#':
			if i == start || c.in[i-1] == ' ' { // a comment
				return t, false
			}
			continue
		case ':':
			if t.key = c.in[i+1] == ' ' || c.in[i+1] == '\n'; !t.key {
				continue
			}
		case '\n':
		default:
			return t, false
		}
		t.text, t.next = c.in[start:i], i
		return t, i > start && c.in[i-1] != ' '
	}
}

// longestKey bounds a key, in bytes: parsers take 1024 characters.
const longestKey = 128

// quotedKey reads a key in quotes.
func (c *Converter) quotedKey() (t token, ok bool) {
	line := c.line()
	end := bytes.IndexByte(line[1:], line[0]) + 1
	if end == 0 || end > longestKey || end+1 >= len(line) || line[end+1] != ':' || bytes.IndexByte(line[:end], '\\') >= 0 {
		return t, false
	}
	if end+2 < len(line) && line[end+2] != ' ' {
		return t, false
	}
	text := line[1:end]
	if !isUsual(text) {
		return t, false
	}
	return token{text: text, next: c.pos + end + 1, key: true, quoted: true, escapes: bytes.IndexByte(text, '"') >= 0}, true
}

// isKey reports whether the token is a key, and a text.
func (t token) isKey() bool {
	switch {
	case !t.key || t.quoted:
		return t.key
	case len(t.text) > longestKey || bytes.HasPrefix(t.text, []byte("---")) || bytes.HasPrefix(t.text, []byte("...")):
		// --- and ... stand between two documents
		return false
	}
	return isPlain(t.text) && isText(t.text)
}

// isPlain reports whether what has no quotes does not begin with what means something else.
func isPlain(text []byte) bool {
	// A dash may begin a text, where no space follows.
	return !marks[text[0]] && (text[0] != '-' || len(text) > 1 && text[1] != ' ')
}
