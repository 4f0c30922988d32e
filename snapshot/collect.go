package snapshot

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/intern"
)

type typeName struct{ apiVersion, kind string }

// reading is the state that the collectors of one input share.
type reading struct {
	limits limits
	opts   ReadOptions
	tally  tally
	// clusters are noted for the whole input, also for files from which nothing is kept.
	clusters clusters
	sharer   *intern.Interner
	// in and yaml are reused for each text: an archive may have one file for each object.
	in   *bufio.Reader // reads from rest
	rest rest
	yaml yamlBuffers
	batches
}

func newReading(limits limits, opts ReadOptions) *reading {
	return &reading{
		limits: limits, opts: opts, tally: tally{ofKind: map[Kind]int{}},
		clusters: clusters{nodes: map[string]namedIn{}, shared: map[filePair]*sharedNodes{}},
		sharer:   intern.New(), in: bufio.NewReaderSize(nil, 64<<10), batches: batches{&itemBatch{}, &itemBatch{}},
	}
}

// collector gathers the objects of an input: of all its documents, or of one list in a bundle.
type collector struct {
	*reading
	objects Objects
	seen    seen
	// namespaces are those of the objects that are kept; "" stands for objects without one.
	namespaces sets.Set[string]
	counts     map[Kind]int
	// twice are the kinds with an object whose older state was read before a newer one.
	twice map[Kind]bool
	// listings are the lists of each kind, in the order in which they were read.
	listings map[Kind][]*listing
	// gone are the UIDs of the objects that were deleted while somebody watched.
	gone  map[types.UID]bool
	depth int // the number of lists around the current one
	// total counts the objects of known kinds, including those that are given twice.
	total   int
	ignored map[typeName]int
	// ignoredMore counts the ignored objects of further kinds, beyond MaxIgnoredKinds.
	ignoredMore int
	pages       map[Kind][]page
	// unread maps each kind that the file holds only in an unsupported version to a message about
	// it.
	unread map[Kind]string
	// refused are the gaps of the kinds whose list failed, according to the text.
	refused map[Kind]Gap
	// broken are the gaps of the kinds whose objects may be in a file that could not be read.
	broken  map[Kind]Gap
	altered altered
	// pasted reports whether the text contains lines of a terminal, and dumped whether it is the
	// output of kubectl cluster-info dump.
	pasted, dumped bool
	// commands are those in the text that may still be answered.
	commands []command
	// items is the type of an array's items if they do not give their own. The zero value means
	// that they do.
	items typeName
	// oneOfMany reports whether the text is one of the files of a directory or an archive.
	oneOfMany bool
	// twin is the error about the first object of the current file that another file has in an
	// incomparable state; the rest of such a file is not kept. A single text is refused at once.
	twin error
	// last is the object that was added last; its row is nil if the one after it was not added.
	last added
	// lists counts the documents that are lists, by kind; "" stands for lists of any kind.
	lists map[Kind]int
	// typed counts the lists with the apiVersion and kind of their items.
	typed map[string]int
	notes []Warning
	// told is what a bundle's layout says about each kind in it: a gap, or nil if the list is
	// complete.
	told map[Kind]*Gap
	// version is the API server's version, if a bundle contains it.
	version string

	header   *header
	headerAt place
	clock    fileClock
	// began is the time at which the gathering of a bundle began; zero if the bundle does not say.
	began time.Time
	// controller is the file's Controller; nil if it has none.
	controller *Controller
	manager    *ControllerManager
	backends   []*backend.List
	drivers    backend.Objects // the storage drivers' own objects in a single text
	left       left
	workloads  workloads
}

// added is an object that was added.
type added struct {
	key    identity
	row    *row
	object apiObject
	known  known
}

// dropLast removes the object that was added last, because the file was cut off within it.
func (c *collector) dropLast() {
	if c.last.row == nil {
		return
	}
	c.last.row.drop(&c.objects, func(object apiObject) bool { return object == c.last.object })
	c.altered.forget(c.last.key)
	if c.total--; c.last.known == unseen {
		c.counts[c.last.key.kind]--
		delete(c.seen.states, c.last.key.mark())
	}
	c.last = added{}
}

func (r *reading) collector() *collector {
	return &collector{
		reading:    r,
		seen:       seen{states: map[mark]state{}},
		altered:    altered{of: map[Kind][]identity{}, all: map[Kind]int{}},
		gone:       map[types.UID]bool{},
		namespaces: sets.New[string](),
		counts:     map[Kind]int{},
		twice:      map[Kind]bool{},
		listings:   map[Kind][]*listing{},
		ignored:    map[typeName]int{},
		pages:      map[Kind][]page{},
		unread:     map[Kind]string{},
		refused:    map[Kind]Gap{},
		broken:     map[Kind]Gap{},
		lists:      map[Kind]int{},
		typed:      map[string]int{},
		told:       map[Kind]*Gap{},
		left:       left{ofUse: r.opts.PodsOfUse, replicas: replicas{}},
		workloads:  workloads{},
	}
}

// warnings returns the warnings, sorted so that the same input gives the same warnings.
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
		warnings = append(warnings, ignoredOf(n, fmt.Sprintf("kind %s (%s)", plain(name.kind), plain(name.apiVersion))))
	}
	if c.ignoredMore > 0 {
		warnings = append(warnings, ignoredOf(others+c.ignoredMore, fmt.Sprintf("more than %d other kinds", len(names)-maxIgnoredKinds)))
	} else if others > 0 {
		warnings = append(warnings, ignoredOf(others, count(len(names)-maxIgnoredKinds, "other kind")))
	}
	return warnings
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

func ignoredOf(n int, what string) Warning {
	if n == 1 {
		return Warning("1 object of " + what + " was ignored")
	}
	return Warning(fmt.Sprintf("%d objects of %s were ignored", n, what))
}

// snapshot makes the snapshot after everything was read.
func (c *collector) snapshot(name string, opts ReadOptions) (*Snapshot, []Warning, error) {
	fail := func(format string, args ...any) (*Snapshot, []Warning, error) {
		return nil, c.warnings(), fmt.Errorf("%s: "+format, append([]any{plain(name)}, args...)...)
	}
	if err := c.clusters.err(); err != nil {
		return nil, nil, err
	}
	if c.header == nil && c.total == 0 {
		for _, kind := range Kinds() {
			if gap, ok := c.refused[kind]; ok {
				return fail("no object in it, and an answer that refuses them: %s", gap.Detail)
			}
		}
		if len(c.ignored) == 0 {
			return fail("no object in it")
		}
		return fail("no object in it is of a kind that volume-doctor reads")
	}
	source := Source{Path: name, ServerVersion: c.version}
	if c.header != nil {
		source.ServerVersion = c.header.ServerVersion
	}
	takenAt, err := c.now(name, opts.Now)
	if err != nil {
		return nil, c.warnings(), err
	}
	if err := c.left.check(&c.objects); err != nil {
		return nil, c.warnings(), err
	}
	for kind := range c.twice {
		resourceOf(kind).newest(&c.objects)
	}
	c.dropDeleted()
	c.dropSuperseded()
	c.dropAltered()
	kept := c.objects.Pods
	c.objects.Pods = slices.Concat(kept, c.left.some)
	gaps, err := c.believe(opts.Whole, c.gaps(takenAt))
	c.objects.Pods = kept
	if err != nil {
		return fail("%w", err)
	}
	otherPods := len(c.left.pods)
	*c.reading = reading{limits: c.limits, opts: c.opts} // releases the memory, which is large for a large file
	c.seen, c.left = seen{}, left{}
	s := New(takenAt.UTC(), source, c.objects, gaps)
	s.OtherPods = otherPods
	if s.Controller = c.controller; s.Controller != nil {
		s.Controller.Sort()
	}
	s.Manager = c.manager
	s.NamesHashed = c.header != nil && c.header.Names == namesHashed
	for _, l := range c.backends {
		l.Sort()
	}
	listed := s.TakenAt
	switch {
	case c.began.IsZero() && c.drivers.InBundle():
		listed = listed.Add(-longestGathering)
	case !c.began.IsZero() && c.began.Before(listed):
		listed = c.began
	}
	s.Backends = append(c.backends, c.drivers.Taken(listed.UTC(), func(note string) { c.notes = append(c.notes, Warning(plain(note))) })...)
	return s, c.warnings(), nil
}

// merge adds everything that another collector has read.
func (c *collector) merge(o *collector) error {
	for _, s := range resources {
		if err := c.mergeKind(o, s.Kind); err != nil {
			return err
		}
	}
	maps.Copy(c.twice, o.twice)
	for kind, pages := range o.pages {
		c.pages[kind] = append(c.pages[kind], pages...)
	}
	maps.Copy(c.unread, o.unread)
	maps.Copy(c.refused, o.refused)
	maps.Copy(c.broken, o.broken)
	maps.Copy(c.workloads, o.workloads)
	for t, n := range o.ignored {
		c.ignore(t, n)
	}
	c.ignoredMore += o.ignoredMore
	c.notes = append(c.notes, o.notes...)
	c.clock.merge(&o.clock)
	if o.controller != nil {
		if err := c.addController(o.headerAt, o.controller); err != nil {
			return err
		}
	}
	if o.manager != nil {
		if err := c.addManager(o.headerAt, o.manager); err != nil {
			return err
		}
	}
	c.drivers.Merge(&o.drivers)
	for _, l := range o.backends {
		if err := c.addBackend(o.headerAt, l); err != nil {
			return err
		}
	}
	if o.header != nil {
		if c.header != nil {
			return o.headerAt.errorf("a second Snapshot header; the first is at %s", c.headerAt)
		}
		c.header, c.headerAt = o.header, o.headerAt
	}
	return nil
}

// countKnown counts an object that is kept.
func (c *collector) countKnown(kind Kind, known known) {
	if known == newer {
		c.twice[kind] = true
		return
	}
	c.counts[kind]++
}

// mergeKind adds the objects of one kind that are not present yet.
func (c *collector) mergeKind(o *collector, kind Kind) error {
	s := resourceOf(kind)
	c.altered.merge(kind, &o.altered)
	for object := range s.all(&o.objects) {
		known, err := c.seen.merge(identity{kind, object.GetNamespace(), object.GetName()}, &o.seen)
		if err != nil {
			return err
		}
		c.total++
		if known.kept() {
			s.add(&c.objects, object)
			c.countKnown(kind, known)
		}
	}
	if kind != Pods {
		return nil
	}
	c.left.take(&o.left)
	for _, pod := range o.left.pods {
		known, err := c.seen.merge(pod.identity(), &o.seen)
		if err != nil {
			return err
		}
		c.total++
		if known.kept() {
			c.left.pods = append(c.left.pods, pod)
			c.countKnown(kind, known)
		}
	}
	return nil
}

// takeKind adds the objects of one kind, none of which may be present yet.
func (c *collector) takeKind(o *collector, kind Kind) {
	s := resourceOf(kind)
	c.altered.merge(kind, &o.altered)
	for object := range s.all(&o.objects) {
		s.add(&c.objects, object)
	}
	if kind == Pods {
		c.left.pods = append(c.left.pods, o.left.pods...)
		c.left.take(&o.left)
	}
	c.counts[kind] += o.counts[kind]
	c.total += o.counts[kind]
	c.twice[kind] = c.twice[kind] || o.twice[kind]
}
