package facts

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestTokensAreWhatTokenFinds: tokens yields exactly the words that Token finds.
func TestTokensAreWhatTokenFinds(t *testing.T) {
	letters := rapid.SampledFrom([]rune("i-1._ /ä"))
	rapid.Check(t, func(t *rapid.T) {
		text, word := rapid.StringOfN(letters, 0, 12, -1).Draw(t, "text"), rapid.StringOfN(letters, 0, 4, -1).Draw(t, "word")
		if got, want := slices.Contains(slices.Collect(tokens(text, len(word))), word), Token(text, word); got != want {
			t.Errorf("%q in %q: %v, want %v", word, text, got, want)
		}
	})
}
