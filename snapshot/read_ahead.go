package snapshot

import (
	"runtime"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/yamljson"
)

// itemAhead is an item of a YAML list, which is decoded while those after it are read:
// that takes most of the time, and the items are taken in their order all the same.
type itemAhead struct {
	text       []byte
	begin, end int // its lines
	decoding   sync.WaitGroup
	fast       yamljson.Converter
	look       firstLook
	pod        corev1.Pod // of the look
	// raw is the item in JSON, and object what it is; nil for one that is not as nearly
	// all are.
	raw    []byte
	of     *row
	object apiObject
}

func newYAMLBuffers(limits limits) yamlBuffers {
	const (
		useful  = 8 // that decode at once: more would wait for the one that reads
		waiting = 4 // items for each, so that none has to wait for another
	)
	y := yamlBuffers{decoders: make([]quickDecoders, min(useful, runtime.GOMAXPROCS(0)))}
	y.ahead = make([]itemAhead, waiting*len(y.decoders))
	for i := range y.decoders {
		y.decoders[i].limits = limits
	}
	return y
}

// beginDecoding starts what decodes the items of lists, unless it runs. Each goroutine
// decodes many: the decoders go deep, and a stack that is new grows at every step.
func (y *yamlReader) beginDecoding() {
	if y.undecoded != nil {
		return
	}
	y.undecoded = make(chan *itemAhead, len(y.ahead))
	for i := range y.decoders {
		go decodeItems(y.undecoded, &y.decoders[i])
	}
}

// endDecoding ends it, after all items.
func (y *yamlReader) endDecoding() {
	if y.undecoded != nil {
		close(y.undecoded)
		y.undecoded = nil
	}
}

// largeItem is the size in bytes above which an item is taken before the next one is read:
// a stranger's file may have nothing but such items.
const largeItem = 256 << 10

func decodeItems(items <-chan *itemAhead, quick *quickDecoders) {
	for i := range items {
		i.raw, i.of, i.object = nil, nil, nil
		if raw, ok := usual(i.text, &i.fast, i.fast.Item, quick.limits); ok {
			i.raw = raw
			i.of, i.object = quick.typed(raw, i.look)
		}
		i.decoding.Done()
	}
}

// forget makes room for another item.
func (i *itemAhead) forget() {
	i.text, i.raw, i.object = i.text[:0], nil, nil
	if cap(i.text) > 2*largeItem {
		i.text, i.fast = nil, yamljson.Converter{}
	}
}

// gathering is the item to which lines are added.
func (y *yamlReader) gathering() *itemAhead {
	return &y.ahead[(y.first+y.decoded)%len(y.ahead)]
}

// endItem has the item decoded that was gathered, a sequence of one.
func (y *yamlReader) endItem() error {
	item := y.gathering()
	if len(item.text) == 0 {
		return nil
	}
	item.begin, item.end = y.itemBegin, y.line
	item.look = firstLook{y.c.left.wants, &item.pod}
	item.decoding.Add(1)
	y.undecoded <- item
	if y.decoded++; len(item.text) > largeItem {
		return y.takeItems()
	}
	if y.decoded < len(y.ahead) {
		return nil
	}
	return y.takeItem()
}

// endItems takes all items that were read.
func (y *yamlReader) endItems() error {
	if err := y.endItem(); err != nil {
		return err
	}
	return y.takeItems()
}

func (y *yamlReader) takeItems() error {
	for y.decoded > 0 {
		if err := y.takeItem(); err != nil {
			return err
		}
	}
	return nil
}

// takeItem takes the first of the items that are decoded. Where it is wrong, the others
// are forgotten.
func (y *yamlReader) takeItem() error {
	item := &y.ahead[y.first]
	item.decoding.Wait()
	err := y.item(item)
	item.forget()
	y.first, y.decoded = (y.first+1)%len(y.ahead), y.decoded-1
	if err != nil {
		y.forgetItems()
	}
	return err
}

func (y *yamlReader) forgetItems() {
	for i := range y.ahead {
		y.ahead[i].decoding.Wait()
		y.ahead[i].forget()
	}
	y.first, y.decoded = 0, 0
}

// earliest is the error, unless one of the items before it is wrong.
func (y *yamlReader) earliest(err error) error {
	if first := y.takeItems(); first != nil {
		return first
	}
	y.forgetItems()
	return err
}
