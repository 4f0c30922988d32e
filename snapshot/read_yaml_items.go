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

// endItem has the item decoded that was gathered, a sequence of one.
func (y *yamlReader) endItem() error {
	item := y.ahead.gathering()
	if len(item.text) == 0 {
		return nil
	}
	item.item, item.begin, item.end = true, y.itemBegin, y.line
	item.look = firstLook{y.c.left.wants, &item.pod}
	large := len(item.text) > largeText
	y.ahead.decode()
	switch {
	case large:
		return y.ahead.takeAll(y.item)
	case y.ahead.full():
		return y.ahead.take(y.item)
	}
	return nil
}

// endItems takes all items that were read.
func (y *yamlReader) endItems() error {
	if err := y.endItem(); err != nil {
		return err
	}
	return y.ahead.takeAll(y.item)
}

// earliest is the error, unless one of the items before it is wrong.
func (y *yamlReader) earliest(err error) error {
	if first := y.ahead.takeAll(y.item); first != nil {
		return first
	}
	y.ahead.forget()
	return err
}

// item takes an item of the list.
func (y *yamlReader) item(item *textAhead) error {
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
