package output

import (
	"bytes"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// FuzzSafe compares the text for terminals with the Unicode tables. No character gets through that
// controls a terminal, hides, or changes the direction of the line. Plain text is unchanged.
func FuzzSafe(f *testing.F) {
	for _, piece := range hostile {
		f.Add(piece, "web-0 "+piece)
	}
	f.Add("\U000e0061\ufe0f\u115f\u3164", "\u2066\u2069\u061c\u00ad")
	f.Fuzz(func(t *testing.T, message, name string) {
		for _, text := range []string{message, name} {
			got := Safe(text)
			checkShown(t, got)
			if Safe(got) != got {
				t.Errorf("%q changes once more: %q", got, Safe(got))
			}
			if utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) && got != text {
				t.Errorf("%q is shown as %q", text, got)
			}
		}
		r := report()
		f := &r.Findings[0]
		f.Message, f.Subject.Name, f.Cause, f.Advice = message, name, message, name
		f.Evidence = []finding.Evidence{{Object: name, Field: "f", Value: message}}
		var b bytes.Buffer
		if err := ReportFormats.Print(&b, "table", r, Options{}); err != nil {
			t.Fatal(err)
		}
		checkShown(t, strings.ReplaceAll(b.String(), "\n", ""))
	})
}

// checkShown fails on control characters, direction marks, and characters without width.
func checkShown(t *testing.T, text string) {
	t.Helper()
	for _, r := range text {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Cs, unicode.Co, unicode.Zl, unicode.Zp, unicode.Bidi_Control,
			unicode.Noncharacter_Code_Point, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			t.Fatalf("lets %q through: %q", r, text)
		}
	}
}

// FuzzFormats checks every format against its own rules, with reports in which somebody else chose
// every text.
func FuzzFormats(f *testing.F) {
	f.Add([]byte("web-0 \x1b[31m <script> ` | ]]>"))
	f.Fuzz(rapid.MakeFuzz(func(t *rapid.T) {
		r := hostileReport().Draw(t, "report")
		for _, format := range ReportFormats.Names() {
			var b bytes.Buffer
			if err := ReportFormats.Print(&b, format, r, Options{}); err != nil {
				t.Fatalf("%s: %v", format, err)
			}
			if check := checkers[format]; check != nil {
				check(named{t, format}, b.Bytes(), r)
			}
		}
	}))
}
