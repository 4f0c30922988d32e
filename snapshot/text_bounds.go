package snapshot

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// countValues returns the number of fields and items in a JSON value at all depths, and its largest
// depth.
func countValues(raw []byte) (values, deepest int) {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			values++
			depth++
			deepest = max(deepest, depth)
		case '}', ']':
			depth--
		case ',':
			values++
		}
	}
	return values, deepest
}

// hasAbsurdNumber reports whether the JSON text contains a number that would keep the decoder of
// resource quantities busy for hours: it writes out 1e-999999999 digit by digit. A few digits with
// a large positive exponent are accepted: they do no harm, and labels hold commits such as 12e4567.
func hasAbsurdNumber(raw []byte) bool {
	const mostDigits, mostExactDigits = 64, 15 // in total, and before a long positive exponent
	raw = escapedASCII.ReplaceAllFunc(raw, func(escape []byte) []byte {
		code, _ := strconv.ParseUint(string(escape[2:]), 16, 8) // the expression matches nothing else
		return []byte{byte(code)}
	})
	for value := range bytes.FieldsFuncSeq(raw, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune("\":,[]{}", r) }) {
		m := number.FindSubmatch(value)
		if m == nil {
			continue
		}
		if digits, minus := len(m[1]), m[2]; digits > mostDigits || minus != nil && (len(minus) > 0 || digits > mostExactDigits) {
			return true
		}
	}
	return false
}

var (
	// number matches a number, or its beginning: its digits, and the sign of an exponent that has more
	// than three digits and ends it.
	number       = regexp.MustCompile(`^[-+]?([\d.]+)(?:[eE]\+?(-?)\d{4,}$)?`)
	escapedASCII = regexp.MustCompile(`\\u00[0-7][\da-fA-F]`)
)
