package fastjson

import (
	"encoding/json"
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/rawjson"
)

// What a byte of a text is.
const (
	ends      = 1 << iota // or begins something else
	parts                 // numbers in it from each other
	exponents             // of a number
	digits
)

var classes = func() (classes [256]byte) {
	for b := range 0x20 {
		classes[b] = ends
	}
	for _, b := range `"\` {
		classes[b] |= ends
	}
	for _, b := range `:,[]{} ` {
		classes[b] |= parts
	}
	for b := '0'; b <= '9'; b++ {
		classes[b] |= digits
	}
	classes['e'] |= exponents
	classes['E'] |= exponents
	return classes
}()

// mostDigits is less than a number has that is absurd.
const mostDigits = 64

// quoted reads a text: what stands between the quotes, and whether there is an escape in
// it. Neither it nor a number in it may be absurd.
func (r *reader) quoted() (got []byte, escaped, ok bool) {
	if r.peek() != '"' {
		return nil, false, false
	}
	start := r.pos + 1
	i := start
	has := byte(0)
	for {
		for i < len(r.raw) && classes[r.raw[i]]&ends == 0 {
			has |= classes[r.raw[i]]
			i++
		}
		if i >= len(r.raw) {
			return nil, false, false
		}
		if r.raw[i] == '"' {
			break
		}
		if r.raw[i] != '\\' || i+1 >= len(r.raw) {
			return nil, false, false
		}
		escaped = true
		switch r.raw[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			i += 2
		case 'u':
			if i+6 > len(r.raw) {
				return nil, false, false
			}
			for _, b := range r.raw[i+2 : i+6] {
				if (b < '0' || b > '9') && (b < 'a' || b > 'f') && (b < 'A' || b > 'F') {
					return nil, false, false
				}
			}
			i += 6
		default:
			return nil, false, false
		}
	}
	got = r.raw[start:i]
	r.pos = i + 1
	mayHold := has&digits != 0 && (has&parts != 0 || len(got) > 0 && numeric(got[0])) && (has&exponents != 0 || len(got) > mostDigits)
	if (escaped || mayHold) && rawjson.HasAbsurdNumber(r.raw[start-1:i+1]) {
		return nil, false, false
	}
	return got, escaped, true
}

// numeric is true of what a number may begin with.
func numeric(b byte) bool { return b >= '0' && b <= '9' || b == '.' || b == '+' || b == '-' }

// textOf makes a text of what was quoted. Most texts were there before.
func (r *reader) textOf(got []byte, escaped bool) (string, bool) {
	if escaped {
		var t string
		err := json.Unmarshal(slices.Concat([]byte{'"'}, got, []byte{'"'}), &t)
		return t, err == nil
	}
	if len(got) == 0 {
		return "", true
	}
	if len(got) > mostDigits {
		return string(got), true
	}
	hash := uint32(len(got))
	for _, b := range got {
		hash = (hash ^ uint32(b)) * 16777619
	}
	known := &r.known[(hash^hash>>15)%uint32(len(r.known))]
	if *known != string(got) {
		*known = string(got)
	}
	return *known, true
}

// integer reads a number that has neither a fraction nor an exponent.
func (r *reader) integer() (n int64, ok bool) {
	start := r.pos
	negative := r.peek() == '-'
	if negative {
		r.pos++
	}
	digits := r.pos
	for r.peek() >= '0' && r.peek() <= '9' {
		n = n*10 + int64(r.peek()-'0')
		r.pos++
	}
	if r.pos == digits || r.pos-start > 18 || r.raw[digits] == '0' && r.pos-digits > 1 {
		return 0, false
	}
	switch r.peek() {
	case '.', 'e', 'E':
		return 0, false
	}
	if negative {
		n = -n
	}
	return n, true
}

// skip passes over a value of any kind.
func (r *reader) skip() bool {
	switch r.peek() {
	case '"':
		_, _, ok := r.quoted()
		return ok
	case '{':
		empty, ok := r.open('}')
		if empty || !ok {
			return ok
		}
		for {
			if _, _, ok := r.quoted(); !ok {
				return false
			}
			r.space()
			if r.peek() != ':' {
				return false
			}
			r.pos++
			r.space()
			if !r.skip() {
				return false
			}
			if more, ok := r.more('}'); !more {
				return ok
			}
		}
	case '[':
		empty, ok := r.open(']')
		if empty || !ok {
			return ok
		}
		for {
			if !r.skip() {
				return false
			}
			if more, ok := r.more(']'); !more {
				return ok
			}
		}
	case 't':
		return r.word("true")
	case 'f':
		return r.word("false")
	case 'n':
		return r.word("null")
	default:
		_, ok := r.integer()
		return ok
	}
}
