// Package yamljson turns YAML into JSON: fast for the YAML that programs write of API
// objects, and with a parser for any other.
package yamljson

import (
	"bytes"
	"hash/maphash"
)

// Converter turns one text after the other into JSON where its YAML is of the usual form, and
// leaves all other texts to Parse. It is for one goroutine at a time.
type Converter struct {
	// WithoutFieldsV1 empties the field sets in the objects' managedFields, which are often
	// half of a file.
	WithoutFieldsV1 bool

	in  []byte
	pos int // of the line, or of its unread part
	col int // the indentation at pos; -1 before a line has begun
	out []byte
	// keys are the places in out of the keys of all objects that have begun.
	keys  []span
	depth int
	// checked are the field sets that were checked: the pods of one controller have the same, and
	// half of a must-gather are field sets. Of 30,000 pods they take a second.
	checked map[fieldSet]bool
}

// fieldSet is the hash of a text, and how deep it is nested.
type fieldSet struct {
	hash  uint64
	depth int
}

// mostChecked bounds the field sets that are remembered.
const mostChecked = 1 << 12

var seed = maphash.MakeSeed()

type span struct{ from, to int }

const (
	mostDepth = 64
	mostKeys  = 256 // of one object: each is compared with the others
)

// Item is the JSON of a sequence of one item, as it stands in a list. The result is valid
// until the next call, and false where the text is not of the usual form.
func (c *Converter) Item(text []byte) ([]byte, bool) {
	if !c.begin(text) || !c.isDash() {
		return nil, false
	}
	c.pos += 2
	c.col += 2
	return c.whole()
}

// Document is the JSON of a text that is an object.
func (c *Converter) Document(text []byte) ([]byte, bool) {
	if !c.begin(text) || c.col != 0 {
		return nil, false
	}
	return c.whole()
}

// whole is the JSON of an object that extends to the end of the text.
func (c *Converter) whole() ([]byte, bool) {
	t, ok := c.token()
	if !ok || !c.mapping(c.col, t) || c.pos != len(c.in) {
		return nil, false
	}
	return c.out, true
}

func (c *Converter) begin(text []byte) bool {
	c.in, c.pos, c.out, c.keys, c.depth = text, 0, c.out[:0], c.keys[:0], 0
	if len(text) == 0 || text[len(text)-1] != '\n' {
		return false
	}
	return c.indent() && c.pos < len(c.in)
}

// indent skips the indentation of a line. It is false for an empty line or a comment.
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

// isDash reports whether an item of a list begins.
func (c *Converter) isDash() bool {
	return c.in[c.pos] == '-' && c.in[c.pos+1] == ' '
}

// mapping reads the fields with this indentation, the first of which begins with t. It stops
// before the next line.
func (c *Converter) mapping(indent int, t token) bool {
	if c.depth++; c.depth > mostDepth {
		return false
	}
	first := len(c.keys)
	c.out = append(c.out, '{')
	for {
		if !t.isKey() {
			return false
		}
		if len(c.keys) > first {
			c.out = append(c.out, ',')
		}
		from := len(c.out)
		c.text(t)
		if !c.unique(first, span{from, len(c.out)}) {
			return false
		}
		c.out = append(c.out, ':')
		c.pos = t.next + 1
		if c.WithoutFieldsV1 && string(t.text) == "fieldsV1" {
			if !c.fieldSet(indent) {
				return false
			}
		} else if !c.fieldValue(indent) {
			return false
		}
		if c.col != indent || c.pos == len(c.in) || c.isDash() {
			if c.col > indent {
				return false
			}
			break
		}
		var ok bool
		if t, ok = c.token(); !ok {
			return false
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

// fieldValue reads the value after a field's colon, up to the beginning of the next line.
func (c *Converter) fieldValue(indent int) bool {
	if c.in[c.pos] == ' ' {
		c.pos++
		t, ok := c.token()
		return ok && c.scalar(indent, t)
	}
	c.pos++ // the end of the line
	if !c.indent() {
		return false
	}
	switch {
	case c.pos < len(c.in) && c.col >= indent && c.isDash():
		return c.sequence(c.col)
	case c.pos < len(c.in) && c.col > indent:
		t, ok := c.token()
		return ok && c.mapping(c.col, t)
	}
	c.out = append(c.out, "null"...)
	return true
}

// fieldSet reads the value of fieldsV1, and leaves it out if it is an object.
func (c *Converter) fieldSet(indent int) bool {
	within, value := c.pos, len(c.out)
	end := c.endOfBlock(indent)
	of := fieldSet{maphash.Bytes(seed, c.in[within:end]), c.depth}
	if c.checked[of] {
		c.out = append(c.out, "{}"...)
		c.pos = end
		return c.indent()
	}
	if !c.fieldValue(indent) {
		return false
	}
	if c.out[value] != '{' {
		return true
	}
	c.out = append(c.out[:value], "{}"...)
	if c.pos-max(c.col, 0) == end {
		if len(c.checked) >= mostChecked {
			clear(c.checked)
		}
		if c.checked == nil {
			c.checked = map[fieldSet]bool{}
		}
		c.checked[of] = true
	}
	return true
}

// endOfBlock returns the place of the first line that is not indented further.
func (c *Converter) endOfBlock(indent int) int {
	end := c.pos
	for end < len(c.in) {
		end += bytes.IndexByte(c.in[end:], '\n') + 1
		for _, b := range c.in[end:min(end+indent+1, len(c.in))] {
			if b != ' ' {
				return end
			}
		}
	}
	return end
}

// sequence reads the items with this indentation.
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
		t, ok := c.token()
		switch {
		case !ok:
			return false
		case t.key:
			if !c.mapping(c.col, t) {
				return false
			}
		case !c.scalar(indent, t):
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

// nextLine goes to the next line; read is the number of bytes that are left of this one.
func (c *Converter) nextLine(read int) bool {
	c.pos += read + 1
	return c.indent()
}
