package snapshot

import (
	"bytes"
	"errors"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/api/resource"
)

// usual decodes an object of a known kind that begins with its type and has no error, as nearly all
// objects do. It returns nil for any other object. Those are left to sigs.k8s.io/json, which takes
// three times as long and decides which objects are valid. See docs/adr/0024-reading.md.
func (c *collector) usual(raw []byte) (*row, apiObject) {
	s := byType[firstType(raw)]
	if s == nil || s.quick == nil {
		return nil, nil
	}
	if values, depth := countValues(raw); values > c.limits.values || depth > c.limits.depth {
		return nil, nil
	}
	return s, s.quick(raw)
}

// firstType returns the type of an object if its first two fields give it.
func firstType(raw []byte) (t typeName) {
	for _, mark := range []string{"{", ","} {
		var field, text []byte
		if field, text, raw = textField(raw, mark); string(field) == "kind" {
			t.kind = string(text)
		} else if string(field) == "apiVersion" {
			t.apiVersion = string(text)
		}
	}
	return t
}

// textField returns a field that follows the mark and has a text, and what follows the text. All
// are nil if something else follows the mark.
func textField(raw []byte, mark string) (field, text, rest []byte) {
	for i, part := range []string{mark, `"`, ":", `"`} {
		var ok bool
		if raw, ok = bytes.CutPrefix(bytes.TrimLeft(raw, " \t\r\n"), []byte(part)); !ok {
			return nil, nil, nil
		}
		if i == 1 {
			field, raw, _ = bytes.Cut(raw, []byte(`"`))
		}
	}
	text, rest, _ = bytes.Cut(raw, []byte(`"`))
	return field, text, rest
}

// hasItems reports whether the object has a field "items", as lists do.
func hasItems(raw []byte) bool {
	var list struct {
		Items jsontext.Value `json:"items"`
	}
	return bytes.Contains(raw, []byte(`"items"`)) && (jsonv2.Unmarshal(raw, &list) != nil || list.Items != nil)
}

// boundedQuantities rejects numbers that would keep the decoder of quantities busy for hours.
var boundedQuantities = jsonv2.WithUnmarshalers(jsonv2.UnmarshalFunc(func(raw []byte, q *resource.Quantity) error {
	if hasAbsurdNumber(raw) {
		return errors.New("a number that no API server accepts")
	}
	return q.UnmarshalJSON(raw)
}))
