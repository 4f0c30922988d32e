// Package yamljson turns YAML into JSON: quickly what programs write of API objects, and
// with a parser all else.
package yamljson

import "bytes"

// Converter turns one text after the other into JSON where it is a usual one; all else it
// leaves to Parse. It is for one goroutine at a time.
type Converter struct {
	in  []byte
	pos int // of the line, or of what of it is not read yet
	col int // the indentation of what stands at pos; of a line not begun -1
	out []byte
	// keys are where in out those of the objects stand that have begun.
	keys  []span
	depth int
}

type span struct{ from, to int }

const (
	mostDepth = 64
	mostKeys  = 256 // of one object: each is compared with the others
)

// Item is JSON of a sequence of one, which is an item of a list. The result is valid until
// the next call, and false where the text is not a usual one.
func (c *Converter) Item(text []byte) ([]byte, bool) {
	if !c.begin(text) || !c.isDash() {
		return nil, false
	}
	c.pos += 2
	c.col += 2
	if !c.isEntry() || !c.mapping(c.col) || c.pos != len(c.in) {
		return nil, false
	}
	return c.out, true
}

// Document is JSON of a text that is an object.
func (c *Converter) Document(text []byte) ([]byte, bool) {
	if !c.begin(text) || c.col != 0 || !c.isEntry() || !c.mapping(0) || c.pos != len(c.in) {
		return nil, false
	}
	return c.out, true
}

func (c *Converter) begin(text []byte) bool {
	c.in, c.pos, c.out, c.keys, c.depth = text, 0, c.out[:0], c.keys[:0], 0
	for _, b := range text {
		if b < ' ' && b != '\n' || b >= 0x7f {
			return false
		}
	}
	if len(text) == 0 || text[len(text)-1] != '\n' {
		return false
	}
	return c.indent() && c.pos < len(c.in)
}

// indent passes over the indentation of a line. It is false for one that says nothing.
func (c *Converter) indent() bool {
	start := c.pos
	for c.pos < len(c.in) && c.in[c.pos] == ' ' {
		c.pos++
	}
	c.col = c.pos - start
	if c.pos == len(c.in) {
		c.col = -1
		return start == c.pos
	}
	return c.in[c.pos] != '\n' && c.in[c.pos] != '#'
}

// line is the rest of the line.
func (c *Converter) line() []byte {
	return c.in[c.pos : c.pos+bytes.IndexByte(c.in[c.pos:], '\n')]
}

// isDash says that an item of a list begins.
func (c *Converter) isDash() bool {
	return c.in[c.pos] == '-' && c.in[c.pos+1] == ' '
}

// isEntry says that a field of an object begins.
func (c *Converter) isEntry() bool {
	_, _, ok := c.keyEnd()
	return ok
}

// longestKey bounds a key, in bytes: parsers take 1024 characters.
const longestKey = 128

// keyEnd finds the end of the key that begins at pos, and of its colon.
func (c *Converter) keyEnd() (key []byte, next int, ok bool) {
	line := c.line()
	if len(line) > 0 && (line[0] == '"' || line[0] == '\'') {
		end := bytes.IndexByte(line[1:], line[0])
		if end < 0 || end > longestKey || end+2 >= len(line) || line[end+2] != ':' || bytes.IndexByte(line[:end+1], '\\') >= 0 {
			return nil, 0, false
		}
		if end+3 < len(line) && line[end+3] != ' ' {
			return nil, 0, false
		}
		return line[:end+2], c.pos + end + 3, true
	}
	if bytes.HasPrefix(line, []byte("---")) || bytes.HasPrefix(line, []byte("...")) { // between two documents
		return nil, 0, false
	}
	for i, b := range line {
		if b == ':' && (i+1 == len(line) || line[i+1] == ' ') {
			return line[:i], c.pos + i + 1, i > 0 && i <= longestKey && isPlain(line[:i]) && isText(line[:i])
		}
	}
	return nil, 0, false
}

// mapping reads the fields that are indented so far, and ends before the next line.
func (c *Converter) mapping(indent int) bool {
	if c.depth++; c.depth > mostDepth {
		return false
	}
	first := len(c.keys)
	c.out = append(c.out, '{')
	for {
		key, next, ok := c.keyEnd()
		if !ok {
			return false
		}
		if len(c.keys) > first {
			c.out = append(c.out, ',')
		}
		from := len(c.out)
		if key[0] == '"' || key[0] == '\'' {
			key = key[1 : len(key)-1]
		}
		c.text(key)
		if !c.unique(first, span{from, len(c.out)}) {
			return false
		}
		c.out = append(c.out, ':')
		c.pos = next
		if !c.fieldValue(indent) {
			return false
		}
		if c.col != indent || c.pos == len(c.in) || c.isDash() {
			if c.col > indent {
				return false
			}
			break
		}
	}
	c.out = append(c.out, '}')
	c.keys = c.keys[:first]
	c.depth--
	return true
}

func (c *Converter) unique(first int, key span) bool {
	if len(c.keys)-first >= mostKeys {
		return false
	}
	name := c.out[key.from:key.to]
	for _, k := range c.keys[first:] {
		if k.to-k.from == len(name) && bytes.Equal(c.out[k.from:k.to], name) {
			return false
		}
	}
	c.keys = append(c.keys, key)
	return true
}

// fieldValue reads what stands after a field's colon, to the beginning of the next line.
func (c *Converter) fieldValue(indent int) bool {
	if c.in[c.pos] == ' ' {
		c.pos++
		return c.scalar(indent)
	}
	c.pos++ // the end of the line
	if !c.indent() {
		return false
	}
	switch {
	case c.pos < len(c.in) && c.col >= indent && c.isDash():
		return c.sequence(c.col)
	case c.pos < len(c.in) && c.col > indent:
		return c.isEntry() && c.mapping(c.col)
	}
	c.out = append(c.out, "null"...)
	return true
}

// sequence reads the items that are indented so far.
func (c *Converter) sequence(indent int) bool {
	if c.depth++; c.depth > mostDepth {
		return false
	}
	c.out = append(c.out, '[')
	for n := 0; ; n++ {
		if n > 0 {
			c.out = append(c.out, ',')
		}
		c.pos += 2
		c.col += 2
		if c.pos >= len(c.in) || c.in[c.pos] == ' ' || c.in[c.pos] == '\n' || c.isDash() {
			return false
		}
		if c.isEntry() {
			if !c.mapping(c.col) {
				return false
			}
		} else if !c.scalar(indent) {
			return false
		}
		if c.pos == len(c.in) || c.col != indent || !c.isDash() {
			if c.pos < len(c.in) && c.col > indent {
				return false
			}
			break
		}
	}
	c.out = append(c.out, ']')
	c.depth--
	return true
}

// nextLine ends a line that was read.
func (c *Converter) nextLine(read int) bool {
	c.pos += read + 1
	return c.indent()
}
