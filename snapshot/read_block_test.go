package snapshot

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// checkBlock reads a document in both ways, and says whether the blockReader took
// it. What it makes of one is what the parser and jsonOf make of it; a text that
// is no YAML, or no one document, is not for it.
func checkBlock(t interface {
	Helper()
	Fatalf(string, ...any)
}, text []byte) bool {
	t.Helper()
	var b blockReader
	raw, typed, ok := b.document(text)
	if !ok {
		return false
	}
	value, err := parseYAML(text)
	if err != nil {
		t.Fatalf("the parser does not read it: %v:\n%s", err, text)
	}
	want, err := jsonOf(value, MaxDocument)
	if err != nil {
		t.Fatalf("it cannot be JSON: %v:\n%s", err, text)
	}
	if diff := cmp.Diff(jsonTree(t, want), jsonTree(t, raw)); diff != "" {
		t.Fatalf("%s of:\n%s", diff, text)
	}
	wantType, err := readTypeName(place{}, want)
	if err != nil || typed != wantType {
		t.Fatalf("type %v, want %v, %v", typed, wantType, err)
	}
	return true
}

func jsonTree(t interface{ Fatalf(string, ...any) }, raw []byte) any {
	var value any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if err := d.Decode(&value); err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return value
}

// TestBlockOfWritten: what Write writes never needs the parser, except where a
// text has characters that JSON and YAML do not spell alike.
func TestBlockOfWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := anySnapshot(t)
		var out bytes.Buffer
		if err := Write(&out, s); err != nil {
			t.Fatal(err)
		}
		for i, text := range strings.Split("\n"+out.String(), "\n---\n")[1:] {
			text = strings.TrimSuffix(text, "\n") + "\n"
			if !checkBlock(t, []byte(text)) && !strings.Contains(text, `\`) {
				t.Fatalf("document %d is for the parser:\n%s", i+2, text)
			}
		}
	})
}

// TestBlockLeaves: what it reads, and what it leaves to the parser because YAML
// and JSON differ there, or because an error is to be told.
func TestBlockLeaves(t *testing.T) {
	const head = "apiVersion: v1\nkind: Pod\n"
	for text, want := range map[string]bool{
		head:                             true,
		head + "metadata:\n  name: a\n":  true,
		head + "metadata:\n  \"1\": a\n": true,
		head + "spec:\n  a:\n  - b: 1\n    c: -5\n  - d\n  - - e\n    - {}\n  b: []\n  c: null\n  d: true\n": true,
		head + "spec:\n  a:\n    - b\n  c: \"d \\u00e9 \\\"e\\\"\\n\"\n":                                     true,
		head + "spec:\n  a: b:c\n  \"f: g\": \"1\"\n":                                                        true,
		"apiVersion: v1\n":                                       false,
		"kind: Pod\n":                                            false,
		"apiVersion: v1\nkind: PodList\n":                        false,
		"apiVersion: v1\nitems: []\nkind: Pod\n":                 false,
		"apiVersion: 1\nkind: Pod\n":                             false,
		"apiVersion: v1\nkind: {}\n":                             false,
		strings.TrimSpace(head):                                  false,
		head + "kind: Pod\n":                                     false,
		"kind: Pod\napiVersion: v1\n":                            false,
		head + "spec:\n":                                         false,
		head + "spec:\nstatus: {}\n":                             false,
		head + "spec: no\n":                                      false,
		head + "spec: \n":                                        false,
		head + "spec: a # b\n":                                   false,
		head + "# b\n":                                           false,
		head + "spec: 010\n":                                     false,
		head + "spec: 1.5\n":                                     false,
		head + "spec: 2026-11-20\n":                              false,
		head + "spec: a\n  b\n":                                  false,
		head + "spec: a\n  b: c\n":                               false,
		head + "spec: {a: b}\n":                                  false,
		head + "spec: 'a'\n":                                     false,
		head + "spec: |-\n  a\n":                                 false,
		head + "spec: \"a\n  b\"\n":                              false,
		head + "spec: \"\\ud83d\\ude00\"\n":                      false,
		head + "spec: \"\\U0001f600\"\n":                         false,
		head + "spec: \"\\x41\"\n":                               false,
		head + "spec: \"a\u0085b\"\n":                            false,
		head + "spec: \"a\tb\"\n":                                false,
		head + "spec: \"a\" b\n":                                 false,
		head + "spec:\n  \"\\u0061\": b\n  a: b\n":               false,
		head + "spec:\n    a: b\n  c: d\n":                       false,
		head + "spec:\n- a\n  b\n":                               false,
		head + "spec:\n- a\n- \n":                                false,
		head + "spec:\n  a: b\n  - c\n":                          false,
		head + "spec:\n- a: b\n - c: d\n":                        false,
		head + "spec: &a b\n":                                    false,
		head + "spec: !!str b\n":                                 false,
		head + "spec: a\r\n":                                     false,
		head + "\tspec: a\n":                                     false,
		head + "spec: ~\n":                                       false,
		head + "<<: a\n":                                         false,
		head + strings.Repeat("- ", deepest) + "a\n":             false,
		head + "spec:\n" + strings.Repeat("- ", deepest) + "a\n": false,
		head + "spec:\n  \"" + strings.Repeat("a ", longestName) + "\": b\n": false,
	} {
		if got := checkBlock(t, []byte(text)); got != want {
			t.Errorf("%q: %t, want %t", text, got, want)
		}
	}
}

// FuzzBlock: whatever it takes, the parser takes in the same way.
func FuzzBlock(f *testing.F) {
	for _, text := range []string{
		"apiVersion: v1\nkind: Pod\nspec:\n  a:\n  - b: 1\n    c: -5\n  - d\n  - - e\n    - {}\n  b: []\n  c: null\n",
		"apiVersion: v1\nkind: Pod\nspec:\n  a: \"d \\u00e9 \\\"e\\\"\\n\"\n  \"f: g\": b:c\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if utf8.Valid(text) { // others are refused before
			checkBlock(t, text)
		}
	})
}
