package snapshot

import (
	"bytes"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/yamljson"
)

func (y *yamlReader) beginItems(indent int) error {
	at := y.at.atLine(y.begin)
	at.document++
	y.state, y.indent = inItems, indent
	y.list = &list{c: y.c, at: at, hasItems: true}
	y.cut = bytes.Count(y.text, []byte("\n"))
	return y.c.endItems()
}

// endItem ends the item of a list that is being read.
func (y *yamlReader) endItem() error {
	item := y.c.item()
	if len(item.text) == 0 {
		return nil
	}
	item.begin, item.end = y.itemBegin, y.line
	return y.c.endItem(y, len(item.text))
}

// endList ends the items of a list.
func (y *yamlReader) endList() error {
	y.state = itemsDone
	if err := y.endItem(); err != nil {
		return err
	}
	return y.c.endItems()
}

func (y *yamlReader) takeItem(item *itemText) error {
	if item.document > 0 {
		return y.takeDocument(item)
	}
	if item.raw != nil {
		return y.list.decoded(item.begin, item.raw, item.of, item.object)
	}
	at := y.list.at.atLine(item.begin)
	at.item = y.list.items + 1
	value, err := y.parse(item.text, at, func(line int) int { return min(item.begin+line-1, item.end) })
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
	return y.list.item(item.begin, raw)
}

// usualText converts the text to JSON if it has the form that programs write.
func usualText(text []byte, c *yamljson.Converter, convert func([]byte) ([]byte, bool), limits limits) ([]byte, bool) {
	if tooLong(text, limits) {
		return nil, false
	}
	c.WithoutFieldsV1 = dropsFieldsV1(text)
	raw, ok := convert(text)
	if !ok || int64(len(raw)) > limits.document {
		return nil, false
	}
	return raw, true
}

// dropsFieldsV1 reports whether the text begins with the type of an object whose managedFields are
// not kept by trim.Object. They are often half of the object.
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
