package yamljson

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// usual are texts that the converter reads, and unusual are texts that it leaves to the
// parser.
var (
	usual = []string{
		"a: b\n", "a: 1\nb: -7\nc: true\nd: null\ne: \"1\"\nf: ''\n", "a:\n  b: c\n  d:\n  - e\n  - f: g\n    h: i\nj: k\n", "a:\n- b\n- c: d\n  e:\n  - f\n",
		"a: {}\nb: []\nc:\n", "k:{\"type\":\"Ready\"}:\n  .: {}\n  f:status: {}\n", "a: it is\n  so long\n  that it goes on\nb: c\n", "a: 'it''s \"so\" \\ long\n  that it goes on'\nb: c\n",
		"a: |\n  {\"x\": 1}\n    more\n  end\nb: c\n", "a: |-\n  x\nb: c\n", "a: 10.64.0.1\nb: 7d4b9c6f5d\nc: 123e4567-e89b-12d3-a456-426614174000\nf: 0c9f6a52-0000-4000-8000-000000000001\ng: 00000000-0000-4000-8000-000000000001\nd: 100m\ne: 64Gi\n",
		"a: --config=/etc/x\nb: --help\n", "a: https://h/x?y=z#w\nb: a#b\n", "'a b': c\n\"true\": d\n\"1\": e\n", "a: \"x\\ty\\\"z\"\n", "a:\n- b\n-  c\n",
	}
	unusual = []string{
		"a: 1.5\n", "a: 0x10\n", "a: 010\n", "a: 1e3\n", "a: yes\n", "a: Off\n", "a: ~\n", "a: .inf\n", "a: &x b\n", "a: *x\n", "a: !!str b\n", "a: b # c\n", "# c\na: b\n",
		"a: b\n\nc: d\n", "a: b\na: c\n", "a: b\n'a': c\n", "a: {b: c}\n", "a: >\n  b\n", "a: b: c\n", "? a\n: b\n", "a:\n   b: c\n  d: e\n", "a: b\n c: d\n", "\ta: b\n", "a: \u00fc\n",
		"1: a\n", "true: a\n", "<<: {}\n", "a: \"b\n  c\"\n", "a: 'b\n\n  c'\n", "a: b\n", "a", "- - a\n", "a: 1_000\n", "a: ---\n", "a: 0-1\n", "a: 2026-11-20\n", "a: \"\\x41\"\n", "a: 0\nb: -0\n", "a: @b\n", "a:\n- b\nc\n",
		"--- \"x y---a: b\"\n", "--- x y: b\n", "... x y: b\n", "a:\n  --- x: b\n", "'" + strings.Repeat("a", 1100) + "': b\n",
	}
)

// FuzzSame: the converter's result is the same as the parser's.
func FuzzSame(f *testing.F) {
	for _, text := range append(usual, unusual...) {
		f.Add(text)
		f.Add(strings.ReplaceAll(text, "\n", "\n  ") + "x: y\n")
	}
	var c Converter
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := c.Document([]byte(text))
		if ok {
			same(t, text, got)
		}
		item := "- " + strings.TrimSuffix(strings.ReplaceAll(text, "\n", "\n  "), "  ")
		if got, ok := c.Item([]byte(item)); ok {
			same(t, item, append(append([]byte{'['}, got...), ']'))
		}
	})
}

func same(t *testing.T, text string, got []byte) {
	t.Helper()
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		t.Fatalf("%q: read as %s, and is none: %v", text, got, err)
	}
	var a, b any
	if err := json.Unmarshal(got, &a); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if err := json.Unmarshal(raw, &b); err != nil || !reflect.DeepEqual(a, b) {
		t.Fatalf("%q: read as %s, and is %s", text, got, raw)
	}
}

// TestWithoutFieldsV1: the managers' field sets are checked and left out; another field of
// the same name stays.
func TestWithoutFieldsV1(t *testing.T) {
	c := Converter{WithoutFieldsV1: true}
	for text, want := range map[string]string{
		"m:\n- a: b\n  fieldsV1:\n    f:x:\n      .: {}\n      k:{\"a\":1}: {}\n  time: t\np: q\n": `{"m":[{"a":"b","fieldsV1":{},"time":"t"}],"p":"q"}`,
		"fieldsV1: x\np: q\n":               `{"fieldsV1":"x","p":"q"}`,
		"fieldsV1:\n- x\n":                  `{"fieldsV1":["x"]}`,
		"fieldsV1:\n  f:x: {}\n  f:x: {}\n": "",
	} {
		for range 2 { // the second time the field set is known
			got, ok := c.Document([]byte(text))
			if ok != (want != "") || ok && string(got) != want {
				t.Errorf("%q: %s, %t", text, got, ok)
			}
		}
	}
}

// FuzzKnownFieldSets: a text is converted alike whichever field sets were seen before it.
func FuzzKnownFieldSets(f *testing.F) {
	const set = "\n  f:x:\n    .: {}\n    k:{\"a\":1}: {}\n"
	f.Add("fieldsV1:"+set+"p: q\n", "a:\n- fieldsV1:"+set)
	f.Add("fieldsV1:"+set, "a:\n  fieldsV1:"+set+" b: c\n")
	f.Add("fieldsV1:"+set, "fieldsV1:\n  f:x:\n    .: {}\n    .: {}\n")
	f.Add("fieldsV1:"+set, "fieldsV1:"+set+"\nb: c\n")
	f.Add("fieldsV1:"+set, "fieldsV1:"+set+"# c\n")
	f.Add("fieldsV1: {}\n", "  fieldsV1: {}\nb: c\n")
	f.Add("a:\n    fieldsV1:\n        b: c\n", "fieldsV1:\n        b: c\n    d\n")
	f.Fuzz(func(t *testing.T, before, text string) {
		known, none := Converter{WithoutFieldsV1: true}, Converter{WithoutFieldsV1: true}
		known.Document([]byte(before))
		got, ok := known.Document([]byte(text))
		if want, is := none.Document([]byte(text)); ok != is || string(got) != string(want) {
			t.Fatalf("%q after %q: %s, %t, not %s, %t", text, before, got, ok, want, is)
		}
	})
}

func TestUsual(t *testing.T) {
	var c Converter
	for _, text := range usual[:len(usual)-1] {
		if _, ok := c.Document([]byte(text)); !ok {
			t.Errorf("%q is not read", text)
		}
	}
}
