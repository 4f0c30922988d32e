package snapshot

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"path"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"k8s.io/apimachinery/pkg/types"
)

// A file comes from a stranger's ticket as often as from the own cluster, so
// what it can make a reader hold or do is bounded.
const (
	// MaxDocument is the most that is held of the text at once: one object, or
	// one list that cannot be taken apart item by item. An API server takes
	// objects of up to 3 MiB, and a YAML parser needs a hundred times the size
	// of a hostile document.
	MaxDocument = 16 << 20
	// MaxUntypedItems bounds the items of a list that names its kind only
	// after them: until then nobody knows what they are.
	MaxUntypedItems = 256 << 20
	// MaxUnpacked bounds what a compressed file unpacks to.
	MaxUnpacked = 4 << 30
	// MaxFiles bounds the files of an archive or a directory. The must-gathers
	// of the largest clusters have some hundred thousand.
	MaxFiles = 1 << 20
	// MaxLists bounds the lists of a bundle: five for each namespace of the
	// largest clusters.
	MaxLists = 1 << 16
	// maxIgnoredKinds is how many ignored kinds are told one by one.
	maxIgnoredKinds = 20
)

// limits are the constants above, which tests lower.
type limits struct {
	document, untyped, unpacked int64
	files, lists                int
}

var defaultLimits = limits{document: MaxDocument, untyped: MaxUntypedItems, unpacked: MaxUnpacked, files: MaxFiles, lists: MaxLists}

// ReadOptions are what a file does not say itself.
type ReadOptions struct {
	// Now is the time of the snapshot; the zero time leaves it to the file.
	Now time.Time
}

// Warning is a line for people about something in a file that was not used.
type Warning string

// Read reads a snapshot from one stream: YAML, JSON, or a tar archive of such
// files or of a bundle that ReadFS knows, each of them also gzip'd. The name is
// for messages. Every error is one
// line that says where; the warnings are of use even with an error.
func Read(name string, r io.Reader, opts ReadOptions) (*Snapshot, []Warning, error) {
	return read(name, r, opts, defaultLimits)
}

func read(name string, r io.Reader, opts ReadOptions, limits limits) (*Snapshot, []Warning, error) {
	in, packed, err := unpack(name, r, limits)
	if err != nil {
		return nil, nil, err
	}
	if packed {
		t := newTree(limits)
		if err := t.archive(name, in); err != nil {
			return nil, t.plain.warnings(), err
		}
		return t.snapshot(name, opts)
	}
	c := newCollector(limits)
	if err := c.text(name, in); err != nil {
		return nil, c.warnings(), err
	}
	return c.snapshot(name, opts)
}

// ReadFS reads all YAML and JSON files below a directory as one snapshot; of an
// OpenShift must-gather, a support bundle of troubleshoot.sh or a directory of
// `kubectl cluster-info dump` it reads the lists. Other files and hidden ones
// are passed over.
func ReadFS(name string, fsys fs.FS, opts ReadOptions) (*Snapshot, []Warning, error) {
	t := newTree(defaultLimits)
	files, entries := 0, 0
	// Somebody may name a folder within a bundle, which its own name tells.
	top := path.Base(name)
	if !fs.ValidPath(top) {
		top = "."
	}
	err := fs.WalkDir(fsys, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", plain(path.Join(name, p)), pathError(err))
		case d.IsDir() && hidden(p):
			return fs.SkipDir
		}
		if entries++; entries > t.limits.files {
			return tooMany(name, t.limits)
		}
		at := path.Join(top, p)
		if d.IsDir() || !t.wanted(at) {
			return nil
		}
		if _, ok := bundleFileOf(at); ok && d.Type()&fs.ModeSymlink != 0 {
			return nil // no tool makes one there, and it may lead anywhere
		}
		// Stat follows a link, and leaves out the pipe that would never end.
		if info, err := fs.Stat(fsys, p); err != nil || !info.Mode().IsRegular() {
			return err
		}
		if readable(p) {
			files++
		}
		f, err := fsys.Open(p)
		if err != nil {
			return fmt.Errorf("%s: %w", plain(path.Join(name, p)), pathError(err))
		}
		defer func() { _ = f.Close() }()
		return t.file(path.Join(name, p), at, f)
	})
	if err == nil && t.failed != nil && !t.isBundle() {
		err = t.failed
	}
	if err == nil && files == 0 {
		err = fmt.Errorf("%s: no .yaml, .yml or .json file in it", plain(name))
	}
	if err != nil {
		return nil, t.plain.warnings(), err
	}
	return t.snapshot(name, opts)
}

func tooMany(name string, limits limits) error {
	return fmt.Errorf("%s: more than %d files in it", plain(name), limits.files)
}

// pathError leaves out the path, which the message begins with already.
func pathError(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// readable says whether a file of a directory or an archive is read at all.
func readable(name string) bool {
	switch strings.ToLower(path.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return !hidden(name)
	}
	return false
}

// hidden is true of version control, of the tool's own settings and of the
// "._x.json" that macOS puts into its archives.
func hidden(name string) bool {
	return slices.ContainsFunc(strings.Split(path.Clean(name), "/"), func(s string) bool {
		return strings.HasPrefix(s, ".") && s != "." && s != ".."
	})
}

// place is where in the input something stands, for messages.
type place struct {
	file string
	line int // counted from 1; 0 is unknown
	// document and item are counted from 1; an item is one of a list's.
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

// errorf makes an error that begins with the place.
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

// plain makes text from a file fit for a message: one line, of a bearable
// length, without what a terminal would obey.
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

// identity is what only one object can have.
type identity struct {
	kind            Kind
	namespace, name string
}

// version is one state of one object.
type version struct {
	uid             types.UID
	resourceVersion string
	at              place
}

type typeName struct{ apiVersion, kind string }

// collector gathers the objects of all documents of all files of one snapshot.
type collector struct {
	limits  limits
	objects Objects
	seen    map[identity]version
	counts  map[Kind]int
	// total counts the known objects, also those given twice.
	total     int
	ignored   map[typeName]int
	truncated map[Kind]bool
	// listed counts the documents that are lists.
	listed int
	notes  []Warning
	// told is what a bundle's layout says of the kinds that it has: the gap, or
	// nil for one that is whole.
	told map[Kind]*Gap
	// version is the API server's, where a bundle tells it.
	version string

	header   *header
	headerAt place
	// latest is the latest time in any object, the "now" of a file without one.
	latest     time.Time
	timeFields map[reflect.Type][]int
	sharer     *Sharer
}

func newCollector(limits limits) *collector {
	return &collector{
		limits:    limits,
		seen:      map[identity]version{},
		counts:    map[Kind]int{},
		ignored:   map[typeName]int{},
		truncated: map[Kind]bool{},
		told:      map[Kind]*Gap{},

		timeFields: map[reflect.Type][]int{},
		sharer:     NewSharer(),
	}
}

// warnings are sorted, so that they are the same for the same input.
func (c *collector) warnings() []Warning {
	names := slices.SortedFunc(maps.Keys(c.ignored), func(a, b typeName) int {
		return cmp.Or(strings.Compare(a.kind, b.kind), strings.Compare(a.apiVersion, b.apiVersion))
	})
	warnings := slices.Clone(c.notes)
	others := 0
	for i, name := range names {
		n := c.ignored[name]
		if i >= maxIgnoredKinds {
			others += n
			continue
		}
		warnings = append(warnings, Warning(fmt.Sprintf("%s of kind %s (%s) %s ignored",
			count(n, "object"), plain(name.kind), plain(name.apiVersion), were(n))))
	}
	if others > 0 {
		warnings = append(warnings, Warning(fmt.Sprintf("%s of %s %s ignored",
			count(others, "object"), count(len(names)-maxIgnoredKinds, "other kind"), were(others))))
	}
	return warnings
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func were(n int) string {
	if n == 1 {
		return "was"
	}
	return "were"
}

// snapshot makes the snapshot once everything is read.
func (c *collector) snapshot(name string, opts ReadOptions) (*Snapshot, []Warning, error) {
	fail := func(format string, args ...any) (*Snapshot, []Warning, error) {
		return nil, c.warnings(), fmt.Errorf("%s: "+format, append([]any{plain(name)}, args...)...)
	}
	if c.header == nil && c.total == 0 {
		if len(c.ignored) == 0 {
			return fail("no object in it")
		}
		return fail("no object in it is of a kind that volume-doctor reads")
	}
	source := Source{Path: name, ServerVersion: c.version}
	takenAt := c.latest
	if c.header != nil {
		source.ServerVersion = c.header.ServerVersion
		if !c.header.takenAt.IsZero() {
			takenAt = c.header.takenAt
		}
	}
	if !opts.Now.IsZero() {
		takenAt = opts.Now
	}
	if takenAt.IsZero() {
		return fail("nothing in it says when it was taken; say so with --now")
	}
	gaps := c.gaps()
	c.objects.ShareNames()
	return New(takenAt.UTC(), source, c.objects, gaps), c.warnings(), nil
}
