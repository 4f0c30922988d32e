package yamljson

import (
	"bytes"
	"strings"
)

// scalar reads a value that begins with t and is indented by indent.
func (c *Converter) scalar(indent int, t token) bool {
	line := t.text
	if len(line) == 0 || t.key {
		return false
	}
	switch line[0] {
	case '\'':
		return c.singleQuoted(indent)
	case '"':
		return c.doubleQuoted(line)
	case '|':
		return c.literal(line, indent)
	case '{', '[':
		if string(line) != "{}" && string(line) != "[]" {
			return false
		}
		c.out = append(c.out, line...)
		return c.nextLine(len(line))
	}
	if !isPlain(line) || !c.nextLine(len(line)) {
		return false
	}
	if c.pos == len(c.in) || c.col <= indent {
		return c.value(t)
	}
	// A text that continues on lines that are indented further: each line end is a space.
	c.out = append(c.out, '"')
	c.escape(t)
	for c.pos < len(c.in) && c.col > indent {
		t, ok := c.plain()
		if !ok || t.key {
			return false
		}
		c.out = append(c.out, ' ')
		c.escape(t)
		if !c.nextLine(len(t.text)) {
			return false
		}
	}
	c.out = append(c.out, '"')
	return true
}

// value writes an unquoted value with its meaning in JSON.
func (c *Converter) value(t token) bool {
	switch line := t.text; {
	case isText(line):
		c.text(t)
	case isInteger(line), string(line) == "true", string(line) == "false", string(line) == "null":
		c.out = append(c.out, line...)
	default:
		return false
	}
	return true
}

// text writes a JSON string.
func (c *Converter) text(t token) {
	c.out = append(c.out, '"')
	c.escape(t)
	c.out = append(c.out, '"')
}

func (c *Converter) escape(t token) {
	if !t.escapes {
		c.out = append(c.out, t.text...)
		return
	}
	for _, b := range t.text {
		if b == '"' || b == '\\' {
			c.out = append(c.out, '\\')
		}
		c.out = append(c.out, b)
	}
}

// singleQuoted reads a text in which two quotes stand for one, and which may continue on
// lines that are indented further.
func (c *Converter) singleQuoted(indent int) bool {
	c.out = append(c.out, '"')
	c.pos++
	for {
		line := c.line()
		end := -1
		for i := 0; i < len(line); i++ {
			if line[i] != '\'' {
				continue
			}
			if i+1 < len(line) && line[i+1] == '\'' {
				i++
				continue
			}
			end = i
			break
		}
		part := line
		if end >= 0 {
			if part = line[:end]; end+1 != len(line) {
				return false
			}
		} else if len(line) == 0 || line[len(line)-1] == ' ' {
			return false
		}
		if !isUsual(part) {
			return false
		}
		for i := 0; i < len(part); i++ {
			switch part[i] {
			case '\'':
				i++
			case '"', '\\':
				c.out = append(c.out, '\\')
			}
			c.out = append(c.out, part[i])
		}
		if end >= 0 {
			c.out = append(c.out, '"')
			return c.nextLine(len(line))
		}
		// Within quotes a line may begin with anything.
		c.pos += len(line) + 1
		start := c.pos
		for c.pos < len(c.in) && c.in[c.pos] == ' ' {
			c.pos++
		}
		if c.pos == len(c.in) || c.in[c.pos] == '\n' || c.pos-start <= indent {
			return false
		}
		c.out = append(c.out, ' ')
	}
}

// doubleQuoted reads a text that ends on its line and whose escapes mean the same in JSON.
func (c *Converter) doubleQuoted(line []byte) bool {
	if !isUsual(line) {
		return false
	}
	for i := 1; i < len(line); i++ {
		switch line[i] {
		case '"':
			if i+1 != len(line) {
				return false
			}
			c.out = append(c.out, line...)
			return c.nextLine(len(line))
		case '\\':
			if i++; i == len(line) || strings.IndexByte(`"\nrtbf`, line[i]) < 0 {
				return false
			}
		}
	}
	return false
}

// literal reads the lines below unchanged.
func (c *Converter) literal(line []byte, indent int) bool {
	if string(line) != "|" && string(line) != "|-" {
		return false
	}
	if !c.nextLine(len(line)) || c.pos == len(c.in) || c.col <= indent {
		return false
	}
	within := c.col
	c.out = append(c.out, '"')
	for n := 0; ; n++ {
		if n > 0 {
			c.out = append(c.out, '\\', 'n')
		}
		for range c.col - within {
			c.out = append(c.out, ' ')
		}
		text := c.line()
		if !isUsual(text) {
			return false
		}
		c.escape(token{text: text, escapes: true})
		if !c.nextLine(len(text)) {
			return false
		}
		if c.pos == len(c.in) || c.col < within {
			break
		}
	}
	if len(line) == 1 {
		c.out = append(c.out, '\\', 'n')
	}
	c.out = append(c.out, '"')
	return c.pos == len(c.in) || c.col <= indent
}

// isInteger reports whether the line is an integer in the usual form.
func isInteger(line []byte) bool {
	digits := bytes.TrimPrefix(line, []byte("-"))
	if len(digits) == 0 || len(digits) > 15 || digits[0] == '0' && len(line) > 1 {
		return false
	}
	for _, b := range digits {
		if b < '0' || b > '9' {
			return false
		}
	}
	return true
}

// words are those that some YAML parser does not read as text.
var words = func() map[string]bool {
	all := map[string]bool{}
	for _, w := range strings.Fields("y n yes no on off true false null ~ << = . .nan .inf") {
		all[w] = true
	}
	return all
}()

// isText reports whether every parser certainly reads the unquoted value as text.
func isText(line []byte) bool {
	switch b := line[0]; {
	case b >= '0' && b <= '9', b == '+', b == '-':
		return isNoNumber(line)
	case b == '.':
		return len(line) == 1 || isNoNumber(line)
	case len(line) <= 5 && strings.IndexByte("yYnNtTfFoO~<=", b) >= 0:
		return !words[strings.ToLower(string(line))]
	}
	return true
}

// isNoNumber reports whether the line has a byte that no number can have.
func isNoNumber(line []byte) bool {
	dots, dashes := 0, 0
	for _, b := range line {
		if strings.IndexByte("0123456789abcdefABCDEFxXoOpP_+-.iInNtTyY", b) < 0 {
			return true
		}
		switch b {
		case '.':
			dots++
		case '-':
			dashes++
		}
	}
	if dots > 1 || dashes > 2 && line[0] >= '0' && line[0] <= '9' { // as in an address, and a UID
		return true
	}
	if line[0] < '1' || line[0] > '9' {
		return false
	}
	for _, b := range line { // without a zero before it, no letter but an exponent's can stand in a number
		if strings.IndexByte("0123456789_.eE+-", b) < 0 {
			return true
		}
	}
	return false
}
