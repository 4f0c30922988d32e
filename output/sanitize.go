package output

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
)

// Safe makes every character visible that could steer a terminal or hide in a
// line, and every byte that is no UTF-8: most text here was chosen by drivers and
// by whoever named objects.
func Safe(s string) string { return sanitized(s, safetext.Hidden) }

// SafeLines is Safe for text of several lines: their ends stay.
func SafeLines(s string) string {
	return sanitized(s, func(r rune) bool { return r != '\n' && safetext.Hidden(r) })
}

func sanitized(s string, hidden func(rune) bool) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case hidden(r):
			b.WriteString(escaped(r))
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// escaped is a hidden character as Go writes it. Go takes some that have no
// width for visible.
func escaped(r rune) string {
	if quoted := strconv.QuoteRuneToASCII(r); quoted[1] == '\\' {
		return quoted[1 : len(quoted)-1]
	}
	return fmt.Sprintf(`\x%02x`, r)
}

// visible is Safe for formats that must be valid UTF-8 whatever a saved report
// or an object has in it.
func visible(s string) string { return Safe(strings.ToValidUTF8(s, "\uFFFD")) }
