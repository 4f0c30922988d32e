package snapshot

import (
	"bytes"
	"errors"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// unmarshalers decode two types otherwise than their own methods do.
var unmarshalers = jsonv2.WithUnmarshalers(jsonv2.JoinUnmarshalers(
	jsonv2.UnmarshalFunc(boundedQuantity), jsonv2.UnmarshalFunc(quickTime)))

// boundedQuantity rejects numbers that would keep the decoder of quantities busy for hours. Nearly all
// quantities are short and have no exponent: only the others are looked at.
func boundedQuantity(raw []byte, q *resource.Quantity) error {
	if (len(raw) > 64 || bytes.ContainsAny(raw, `eE\`)) && hasAbsurdNumber(raw) {
		return errors.New("a number that no API server accepts")
	}
	return q.UnmarshalJSON(raw)
}

// quickTime decodes a time without encoding/json, which takes a tenth of the memory of all that is
// decoded.
func quickTime(raw []byte, t *metav1.Time) error {
	if len(raw) < 2 || raw[0] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		return t.UnmarshalJSON(raw)
	}
	at, err := time.Parse(time.RFC3339, string(raw[1:len(raw)-1]))
	t.Time = at.Local()
	return err
}
