package safetext

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestJSON: no hidden character is left, and the text means the same.
func TestJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := strings.ToValidUTF8(rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"\x7f", "a\u202eb", "\U000e0001", "\ufeff\u200b\n", "\U0001f600", "plain"})).Draw(t, "text"), "")
		raw, err := json.MarshalIndent([]string{want}, "", " ")
		if err != nil {
			t.Fatal(err)
		}
		text := JSON(string(raw))
		if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && Hidden(r) }) {
			t.Fatalf("a hidden character in %q", text)
		}
		var got []string
		if err := json.Unmarshal([]byte(text), &got); err != nil || len(got) != 1 || got[0] != want {
			t.Fatalf("%q became %q, %v", want, got, err)
		}
	})
}
