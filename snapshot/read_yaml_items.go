package snapshot

import (
	"bytes"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/yamljson"
)

func (y *yamlReader) beginItems(indent int) {
	at := y.at.atLine(y.begin)
	at.document++
	y.state, y.indent = inItems, indent
	y.list = &list{c: y.c, at: at, hasItems: true}
	y.cut = bytes.Count(y.text, []byte("\n"))
}

// endItem takes the item that was gathered, a sequence of one.
func (y *yamlReader) endItem() error {
	defer func() { y.item = y.item[:0] }()
	if len(y.item) == 0 {
		return nil
	}
	if raw, ok := y.usual(y.item, y.fast.Item); ok {
		return y.list.item(y.itemBegin, raw)
	}
	at := y.list.at.atLine(y.itemBegin)
	at.item = y.list.items + 1
	value, err := y.parse(y.item, at, func(line int) int { return min(y.itemBegin+line-1, y.line) })
	if err != nil {
		return err
	}
	items, ok := value.([]any)
	if !ok || len(items) != 1 {
		return at.errorf("not a list item")
	}
	raw, err := yamljson.JSON(items[0], y.c.limits.document)
	if err != nil {
		return y.conversionFailed(at, err)
	}
	return y.list.item(y.itemBegin, raw)
}

// usual is the text in JSON, if it is such as programs write.
func (y *yamlReader) usual(text []byte, convert func([]byte) ([]byte, bool)) ([]byte, bool) {
	if tooLong(text, y.c.limits) {
		return nil, false
	}
	y.fast.WithoutFieldsV1 = dropsFieldsV1(text)
	raw, ok := convert(text)
	return raw, ok && int64(len(raw)) <= y.c.limits.document
}

// dropsFieldsV1 reports whether the text begins with the type of an object of whose
// managedFields trim.Object keeps nothing: they are often half of the object.
func dropsFieldsV1(text []byte) bool {
	apiVersion, rest, _ := bytes.Cut(text, []byte("\n"))
	kind, _, _ := bytes.Cut(rest, []byte("\n"))
	apiVersion, ok := bytes.CutPrefix(bytes.TrimPrefix(apiVersion, []byte("- ")), []byte("apiVersion: "))
	kind, ok2 := bytes.CutPrefix(bytes.TrimLeft(kind, " "), []byte("kind: "))
	if !ok || !ok2 {
		return false
	}
	s := byType[typeName{string(apiVersion), string(kind)}]
	return s != nil && s.Kind != Nodes
}
