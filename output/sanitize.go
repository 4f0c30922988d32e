package output

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
)

// Safe makes visible every character that could control a terminal or hide in a line, and every
// byte that is not UTF-8. Most of the text here was chosen by drivers, and by users who name
// objects.
func Safe(s string) string { return sanitized(s, safetext.Hidden) }

// SafeLines is Safe for text of several lines: it keeps the line breaks.
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

// escaped returns a hidden character in Go's notation. Go itself treats some characters without
// width as visible; those are escaped here as well.
func escaped(r rune) string {
	if quoted := strconv.QuoteRuneToASCII(r); quoted[1] == '\\' {
		return quoted[1 : len(quoted)-1]
	}
	return fmt.Sprintf(`\x%02x`, r)
}

// visible is Safe for formats that must be valid UTF-8, even if a saved report or an object is not.
func visible(s string) string { return Safe(strings.ToValidUTF8(s, "\uFFFD")) }
