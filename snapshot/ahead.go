package snapshot

import (
	"bytes"
	"runtime"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/yamljson"
)

// ahead decodes texts of one object while those after them are read: that takes most of
// the time. They are taken in their order all the same.
type ahead struct {
	// texts are a ring: from first on those that are decoded, and then the one that is
	// gathered.
	texts          []textAhead
	first, decoded int
	decoders       []quickDecoders // one for each goroutine
	undecoded      chan *textAhead // nil where none runs
}

type textAhead struct {
	text []byte // an item of a YAML list, or else a document
	item bool
	look firstLook
	pod  corev1.Pod // of the look

	decoding sync.WaitGroup
	fast     yamljson.Converter
	// raw is the text in JSON, and object what it is; nil for one that is not as nearly
	// all are.
	raw    []byte
	of     *row
	object apiObject

	// What is known of it besides, of an item and of a document in a file of its own.
	begin, end int // its lines
	file       bundleFile
	name       string
	part       *part
}

func newAhead(limits limits) ahead {
	const (
		useful  = 8  // that decode at once: more would wait for the one that reads
		waiting = 12 // texts for each: with fewer the one that reads waits for those that decode
	)
	a := ahead{decoders: make([]quickDecoders, min(useful, runtime.GOMAXPROCS(0)))}
	a.texts = make([]textAhead, waiting*len(a.decoders))
	for i := range a.decoders {
		a.decoders[i].limits = limits
	}
	return a
}

// end lets the goroutines end, after the last text.
func (a *ahead) end() {
	if a.undecoded != nil {
		close(a.undecoded)
		a.undecoded = nil
	}
}

// gathering is the text that comes next.
func (a *ahead) gathering() *textAhead {
	return &a.texts[(a.first+a.decoded)%len(a.texts)]
}

// decode has the text decoded that was gathered. Each goroutine decodes many: the decoders
// go deep, and a stack that is new grows at every step.
func (a *ahead) decode() {
	if a.undecoded == nil {
		a.undecoded = make(chan *textAhead, len(a.texts))
		for i := range a.decoders {
			go decodeTexts(a.undecoded, &a.decoders[i])
		}
	}
	t := a.gathering()
	t.decoding.Add(1)
	a.undecoded <- t
	a.decoded++
}

// documentMark stands before a document that a program writes alone.
const documentMark = "---\n"

// largeText is the size in bytes above which a text is taken before the next one is read:
// a stranger's file may have nothing but such items.
const largeText = 256 << 10

func decodeTexts(texts <-chan *textAhead, quick *quickDecoders) {
	for t := range texts {
		t.raw, t.of, t.object = nil, nil, nil
		text, convert := t.text, t.fast.Item
		if !t.item {
			text, convert = bytes.TrimPrefix(text, []byte(documentMark)), t.fast.Document
		}
		if raw, ok := usual(text, &t.fast, convert, quick.limits); ok {
			t.raw = raw
			t.of, t.object = quick.typed(raw, t.look)
		}
		t.decoding.Done()
	}
}

// full says that a text must be taken before another one is gathered.
func (a *ahead) full() bool { return a.decoded == len(a.texts) }

// take calls f with the first of the texts that are decoded. Where that is wrong, the
// others are forgotten.
func (a *ahead) take(f func(*textAhead) error) error {
	t := &a.texts[a.first]
	t.decoding.Wait()
	err := f(t)
	t.forget()
	a.first, a.decoded = (a.first+1)%len(a.texts), a.decoded-1
	if err != nil {
		a.forget()
	}
	return err
}

func (a *ahead) takeAll(f func(*textAhead) error) error {
	for a.decoded > 0 {
		if err := a.take(f); err != nil {
			return err
		}
	}
	return nil
}

func (a *ahead) forget() {
	for i := range a.texts {
		a.texts[i].decoding.Wait()
		a.texts[i].forget()
	}
	a.first, a.decoded = 0, 0
}

// forget makes room for another text.
func (t *textAhead) forget() {
	t.text, t.raw, t.object, t.part = t.text[:0], nil, nil, nil
	if cap(t.text) > 2*largeText {
		t.text, t.fast = nil, yamljson.Converter{}
	}
}
