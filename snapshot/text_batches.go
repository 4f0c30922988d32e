package snapshot

import (
	"sync"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/sidebyside"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/yamljson"
)

const (
	// Items are decoded in batches, in parallel with reading the next batch. A batch ends after
	// itemsTogether items, or earlier after bytesTogether bytes.
	itemsTogether = 64
	bytesTogether = 1 << 20
	// largeText is the size from which the memory of an item's text is not reused.
	largeText = 256 << 10
)

// batches are the items that are being read, and those before them, which are being decoded. An
// item is an item of a list, or a whole document. Decoded one by one, a snapshot of 30,000 pods
// takes a second longer on two processors.
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
	text       []byte // of a YAML list, as a sequence of one item; or else in JSON
	begin, end int    // the lines of the item
	document   int    // the number of the document, if the item is a whole one
	fast       yamljson.Converter
	// raw is the item in JSON, and object the decoded item. Both are nil if the item is not in the
	// usual form.
	raw    []byte
	of     *row
	object apiObject
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
		if err := b.reader.takeItem(&b.items[i]); err != nil {
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
		item.of, item.object = c.usual(item.raw)
	}
}
