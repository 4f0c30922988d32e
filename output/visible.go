package output

import "strings"

// visible is Safe for formats that must be valid UTF-8 whatever a saved report
// or an object has in it.
func visible(s string) string { return Safe(strings.ToValidUTF8(s, "\uFFFD")) }
