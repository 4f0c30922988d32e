package snapshot

import (
	"bytes"
	"sync"

	"github.com/volume-doctor/kubectl-volume-doctor/sidebyside"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/yamljson"
)

const (
	// Items are decoded in batches, in parallel with reading the next batch. A batch ends after
	// itemsTogether items, or earlier after bytesTogether bytes.
	itemsTogether = 64
	bytesTogether = 1 << 20
	// largeText is the size from which the memory of an item is not reused.
	largeText = 256 << 10
)

type itemBatch struct {
	items   [itemsTogether]itemText
	n, size int
	decoded sync.WaitGroup
}

// itemText is an item of a YAML list, as a sequence of one item.
type itemText struct {
	text       []byte
	begin, end int // the lines of the item
	fast       yamljson.Converter
	// raw is the item in JSON, and object the decoded item. Both are nil if the item is not in the
	// usual form.
	raw    []byte
	of     *row
	object apiObject
}

func (y *yamlReader) beginItems(indent int) {
	at := y.at.atLine(y.begin)
	at.document++
	y.state, y.indent = inItems, indent
	y.list = &list{c: y.c, at: at, hasItems: true}
	y.cut = bytes.Count(y.text, []byte("\n"))
}

// item returns the text of the item that is being read.
func (y *yamlReader) item() *[]byte { return &y.batch.items[y.batch.n].text }

// endItem ends the item that is being read.
func (y *yamlReader) endItem() error {
	b := y.batch
	item := &b.items[b.n]
	if len(item.text) == 0 {
		return nil
	}
	item.begin, item.end = y.itemBegin, y.line
	b.n++
	b.size += len(item.text)
	if b.n < len(b.items) && b.size < bytesTogether {
		return nil
	}
	return y.decodeBatch()
}

// decodeBatch adds the items that were decoded meanwhile, and starts to decode those that were
// read.
func (y *yamlReader) decodeBatch() error {
	if err := y.takeBatch(); err != nil {
		return err
	}
	b := y.batch
	y.batch, y.decoding = y.decoding, b
	b.decoded.Go(func() {
		sidebyside.Do(b.n, func(i int) { y.c.decodeItem(&b.items[i]) })
	})
	return nil
}

// takeBatch adds the items that were decoded, in their order.
func (y *yamlReader) takeBatch() error {
	b := y.decoding
	b.decoded.Wait()
	defer b.reset()
	for i := range b.n {
		if err := y.takeItem(&b.items[i]); err != nil {
			y.batch.reset() // the items after the one with the error
			return err
		}
	}
	return nil
}

// endItems adds all items that were read.
func (y *yamlReader) endItems() error {
	if err := y.endItem(); err != nil {
		return err
	}
	if err := y.decodeBatch(); err != nil {
		return err
	}
	return y.takeBatch()
}

// earliest returns the error, unless an earlier item has one.
func (y *yamlReader) earliest(err error) error {
	y.batch.items[y.batch.n].text = nil // the item was not read to its end
	if first := y.endItems(); first != nil {
		return first
	}
	return err
}

func (b *itemBatch) reset() {
	for i := range b.items {
		item := &b.items[i]
		if cap(item.text) > largeText {
			*item = itemText{}
		}
		item.text, item.raw, item.object = item.text[:0], nil, nil
	}
	b.n, b.size = 0, 0
}

// decodeItem uses only the limits of the collector, because another goroutine reads on meanwhile.
func (c *collector) decodeItem(item *itemText) {
	if raw, ok := usualText(item.text, &item.fast, item.fast.Item, c.limits); ok {
		item.raw = raw
		item.of, item.object = c.usual(raw)
	}
}

func (y *yamlReader) takeItem(item *itemText) error {
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
	return raw, ok && int64(len(raw)) <= limits.document
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
