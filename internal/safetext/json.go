package safetext

import (
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// JSON escapes the hidden characters of a JSON text except line ends. JSON has
// them in strings alone, so that the text means the same afterwards.
func JSON(text string) string {
	if isVisibleASCII(text) { // the objects of a large cluster are a hundred megabytes of it
		return text
	}
	var b strings.Builder
	for _, r := range text {
		high, low := utf16.EncodeRune(r)
		switch {
		case r == '\n' || !Hidden(r):
			b.WriteRune(r)
		case high != utf8.RuneError:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

func isVisibleASCII(text string) bool {
	for i := range len(text) {
		if b := text[i]; (b < ' ' || b > '~') && b != '\n' {
			return false
		}
	}
	return true
}
