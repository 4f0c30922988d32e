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

// batches are the items that are being read, and those before them, which are being decoded. An item is a part of a list, or a whole document.
type batches struct{ filling, decoding *itemBatch }

type itemBatch struct {
	items   [itemsTogether]itemText
	n, size int
	reader  itemReader // that has read the items
	decoded sync.WaitGroup
}

// itemReader takes each item once it was decoded, in the order in which it has read them.
type itemReader interface{ takeItem(item *itemText) error }

type itemText struct {
	text       []byte // of YAML, as a sequence of one item; or of a whole document in JSON
	begin, end int    // the lines of the item
	document   int    // the number of the document, if the item is a whole one
	fast       yamljson.Converter
	// raw is the item in JSON, and object the decoded item. Both are nil if the item is not in the
	// usual form.
	raw    []byte
	of     *row
	object apiObject
	// spare is an object of a former item that nobody needs any more.
	spare apiObject
}

func (y *yamlReader) beginItems(indent int) error {
	at := y.at.atLine(y.begin)
	at.document++
	y.state, y.indent = inItems, indent
	y.list = &list{c: y.c, at: at, hasItems: true}
	y.cut = bytes.Count(y.text, []byte("\n"))
	return y.c.endItems()
}

// item returns the item that is being read.
func (b *batches) item() *itemText { return &b.filling.items[b.filling.n] }

// queued is the number of the items that were read and not taken.
func (b *batches) queued() int { return b.filling.n + b.decoding.n }

// endItem ends the item that is being read, of that size.
func (c *collector) endItem(reader itemReader, size int) error {
	b := c.filling
	b.reader = reader
	b.n++
	b.size += size
	if b.n < len(b.items) && b.size < bytesTogether {
		return nil
	}
	return c.decodeBatch()
}

// decodeBatch adds the items that were decoded meanwhile, and starts to decode those that were
// read.
func (c *collector) decodeBatch() error {
	if err := c.takeBatch(); err != nil {
		return err
	}
	b := c.filling
	c.batches = batches{c.decoding, b}
	b.decoded.Go(func() {
		sidebyside.Do(b.n, func(i int) { c.decodeItem(&b.items[i]) })
	})
	return nil
}

// takeBatch adds the items that were decoded, in their order.
func (c *collector) takeBatch() error {
	b := c.decoding
	b.decoded.Wait()
	defer b.reset()
	for i := range b.n {
		err := b.reader.takeItem(&b.items[i])
		b.items[i].spare, c.unkept = emptied(c.unkept), nil
		if err != nil {
			c.filling.reset() // the items after the one with the error
			return err
		}
	}
	return nil
}

// endItems adds all items that were read.
func (c *collector) endItems() error {
	if c.queued() == 0 {
		return nil
	}
	if err := c.decodeBatch(); err != nil {
		return err
	}
	return c.takeBatch()
}

// earliest returns the error, unless an earlier item has one.
func (c *collector) earliest(err error) error {
	c.item().text = nil // the item was not read to its end
	if first := c.endItems(); first != nil {
		return first
	}
	return err
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

func (b *itemBatch) reset() {
	for i := range b.items {
		item := &b.items[i]
		if cap(item.text) > largeText {
			*item = itemText{}
		}
		item.text, item.document, item.raw, item.object = item.text[:0], 0, nil, nil
	}
	b.n, b.size = 0, 0
}

// decodeItem uses only the limits of the collector, because another goroutine reads on meanwhile.
func (c *collector) decodeItem(item *itemText) {
	if item.raw == nil {
		item.raw, _ = usualText(item.text, &item.fast, item.fast.Item, c.limits)
	}
	if item.raw != nil {
		item.of, item.object = c.usual(item.raw, item.spare)
		item.spare = nil
	}
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
