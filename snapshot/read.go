package snapshot

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/archive"
	corev1 "k8s.io/api/core/v1"
)

// A file often comes with a ticket from a stranger, so these limits bound what it can make a reader
// hold or do.
const (
	// MaxDocument is the largest part of the text that is held at once: one object, or one list
	// that cannot be split into its items. An API server accepts objects of up to 3 MiB, and a YAML
	// parser needs a hundred times the size of a hostile document.
	MaxDocument = 16 << 20
	// MaxUntypedItems bounds the items of a list whose kind follows after them: until then nobody
	// knows what they are.
	MaxUntypedItems = 256 << 20
	// MaxUnpacked bounds the bytes that are read of one input, after unpacking.
	MaxUnpacked = 4 << 30
	// MaxObjects and MaxOfKind bound the objects that are kept, in total and of one
	// kind. The largest clusters that Kubernetes supports have 150,000 pods; an
	// empty pod takes two kilobytes.
	MaxObjects = 1_000_000
	MaxOfKind  = 500_000
	// MaxValues bounds the fields and items of one object, at all depths. An empty
	// container is three bytes in a file and 600 in memory.
	MaxValues = 100_000
	// MaxDepth bounds how deep the fields of one object are nested.
	MaxDepth = 64
	// MaxYAMLValues bounds the lines and commas of the YAML that is parsed at once,
	// of whatever kind: each may be a value, and the parser makes a tree of them.
	MaxYAMLValues = 1_000_000
	// MaxIgnoredKinds is the largest number of kinds whose ignored objects are counted separately.
	MaxIgnoredKinds = 1_000
	// MaxFiles bounds the files of an archive or a directory. The must-gathers
	// of the largest clusters have some hundred thousand.
	MaxFiles = 1 << 20
	// MaxLists is the largest number of lists in a bundle: five for each namespace of the largest
	// clusters.
	MaxLists = 1 << 16
	// maxIgnoredKinds is the largest number of ignored kinds that are named.
	maxIgnoredKinds = 20
)

// limits are the constants above, which tests lower.
type limits struct {
	document, untyped, unpacked int64
	files, lists                int
	objects, ofKind             int
	values, depth, yamlValues   int
}

var defaultLimits = limits{
	document: MaxDocument, untyped: MaxUntypedItems, unpacked: MaxUnpacked, files: MaxFiles, lists: MaxLists,
	objects: MaxObjects, ofKind: MaxOfKind, values: MaxValues, depth: MaxDepth, yamlValues: MaxYAMLValues,
}

// tally counts the objects of one input.
type tally struct {
	objects int
	ofKind  map[Kind]int
}

// ReadOptions hold what a file does not say itself.
type ReadOptions struct {
	// Now is the time of the snapshot. If it is zero, the time comes from the file.
	Now time.Time
	// PodsOfUse decides, from the objects of the other kinds, which pods to keep; nil keeps all.
	// The other objects may affect the decision only through the pod's namespace, name and node,
	// because nothing else is remembered of a pod that was not kept. Input that cannot be read
	// twice, such as a pipe, is kept in full.
	PodsOfUse func(*Objects) func(*corev1.Pod) bool
	// Whole are the kinds that, according to the user, have no objects besides those in the input.
	// It is an error if the input itself shows that one is missing.
	Whole []Kind
}

// Warning is one line for people about something in a file that was not used.
type Warning string

// Read reads a snapshot from one stream: YAML, JSON, or a tar archive of such files or of a bundle
// that ReadFS recognizes. Each of them may be packed with gzip or xz. The stream may also be a zip
// archive, which is held in memory unless the stream is a file. The name is for messages. Every
// error is one line that names the place. The warnings are useful even with an error.
func Read(name string, r io.Reader, opts ReadOptions) (*Snapshot, []Warning, error) {
	return read(name, r, opts, defaultLimits)
}

func read(name string, r io.Reader, opts ReadOptions, limits limits) (*Snapshot, []Warning, error) {
	again, start := rereadable(r)
	if again == nil {
		opts.PodsOfUse = nil
	}
	s, warnings, err := readOnce(name, r, opts, limits)
	leftOne, ok := errors.AsType[leftOneError](err)
	if !ok {
		return s, warnings, err
	}
	if _, err := again.Seek(start, io.SeekStart); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", plain(name), err)
	}
	return readOnce(name, r, leftOne.again(opts), limits)
}

func readOnce(name string, r io.Reader, opts ReadOptions, limits limits) (*Snapshot, []Warning, error) {
	text, files, err := archive.Open(r, archive.Limits{Unpacked: limits.unpacked, Files: limits.files})
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", plain(name), err)
	}
	if files != nil {
		t := newTree(limits, opts)
		if err := t.archive(name, files); err != nil {
			return nil, t.plain.warnings(), err
		}
		return t.snapshot(name, opts)
	}
	c := newReading(limits, opts).collector()
	if err := c.text(name, text); err != nil {
		return nil, c.warnings(), err
	}
	return c.snapshot(name, opts)
}

// place is a place in the input, for messages.
type place struct {
	file string
	line int // counted from 1; 0 if unknown
	// document and item are counted from 1; item is an item of a list.
	document, item int
}

func (p place) String() string {
	s := plain(p.file)
	if p.line > 0 {
		s += ":" + strconv.Itoa(p.line)
	}
	return s
}

func (p place) atLine(line int) place {
	p.line = line
	return p
}

// errorf returns an error that begins with the place.
func (p place) errorf(format string, args ...any) error {
	where := p.String() + ": "
	if p.document > 0 {
		where += fmt.Sprintf("document %d", p.document)
		if p.item > 0 {
			where += fmt.Sprintf(", item %d", p.item)
		}
		where += ": "
	}
	return fmt.Errorf("%s%w", where, fmt.Errorf(format, args...))
}

// plain makes text from a file fit for a message: one line of limited length without characters
// that could control a terminal.
func plain(s string) string {
	const most = 200
	var b strings.Builder
	for i, r := range s {
		if i >= most {
			b.WriteString("...")
			break
		}
		if unicode.IsPrint(r) && r != unicode.ReplacementChar {
			b.WriteRune(r)
		} else {
			quoted := strconv.QuoteRuneToASCII(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}
