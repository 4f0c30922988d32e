// Package safetext has the rules for text that others chose: which characters a
// reader cannot see, how a word is quoted for a shell, and what is taken for a secret.
package safetext

import "unicode"

// Hidden reports whether the character steers a terminal, changes the order of
// what stands around it, or takes no room: controls (C0, C1), bidirectional
// marks, zero-width and tag characters, variation selectors and blank letters.
func Hidden(r rune) bool {
	return !unicode.IsPrint(r) || r > unicode.MaxLatin1 && unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
