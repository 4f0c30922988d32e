package snapshot

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/backend"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/intern"
)

type typeName struct{ apiVersion, kind string }

// reading is what the collectors of one input share.
type reading struct {
	limits limits
	opts   ReadOptions
	tally  tally
	sharer *intern.Interner
	// in and yaml are used again for each text: an archive may hold a file for each object.
	in   *bufio.Reader // of rest
	rest rest
	yaml yamlBuffers
}

func newReading(limits limits, opts ReadOptions) *reading {
	return &reading{
		limits: limits, opts: opts, tally: tally{ofKind: map[Kind]int{}},
		sharer: intern.New(), in: bufio.NewReaderSize(nil, 64<<10), yaml: yamlBuffers{batch: &itemBatch{}, decoding: &itemBatch{}},
	}
}

// collector gathers the objects of some of an input's documents: of all, or of one list in
// a bundle.
type collector struct {
	*reading
	objects Objects
	seen    seen
	onlyIn  onlyIn
	counts  map[Kind]int
	// twice are the kinds with an object that was read in an older state before a newer one.
	twice map[Kind]bool
	depth int // of the lists in lists
	// total counts the known objects, also those given twice.
	total   int
	ignored map[typeName]int
	// ignoredMore counts the ignored objects beyond MaxIgnoredKinds.
	ignoredMore int
	truncated   map[Kind]bool
	// unread are the kinds that the file holds in a version that is not read: what
	// is wrong.
	unread map[Kind]string
	// refused are the kinds that could not be listed, as the text says.
	refused map[Kind]Gap
	// broken are the kinds whose objects may be in a file that could not be read.
	broken map[Kind]Gap
	// pasted says that lines of a terminal stand in the text, dumped that it is what
	// cluster-info dump prints.
	pasted, dumped bool
	// items are what an array holds whose items do not say it; the zero type asks them.
	items typeName
	// oneOfMany says that the text is one of the files of a directory or an archive.
	oneOfMany bool
	// lists counts the documents that are lists of a kind; "" is a list of any.
	lists map[Kind]int
	// typed counts the lists of a version and an object.
	typed map[string]int
	notes []Warning
	// told is what a bundle's layout says about the kinds that it has: the gap, or
	// nil for one that is whole.
	told map[Kind]*Gap
	// version is the API server's, where a bundle tells it.
	version string

	header   *header
	headerAt place
	clock    fileClock
	// began is when the gathering of a bundle began; zero where it does not say.
	began time.Time
	// controller is what the file has of the controller's log, nil for nothing.
	controller *Controller
	manager    *ControllerManager
	backends   []*backend.List
	drivers    backend.Objects // of the drivers' own, in a single text
	left       left
	// order holds only in a file of our own that can be read twice.
	order order
}

func (r *reading) collector() *collector {
	return &collector{
		reading:   r,
		seen:      seen{states: map[mark]state{}},
		counts:    map[Kind]int{},
		twice:     map[Kind]bool{},
		ignored:   map[typeName]int{},
		truncated: map[Kind]bool{},
		unread:    map[Kind]string{},
		refused:   map[Kind]Gap{},
		broken:    map[Kind]Gap{},
		lists:     map[Kind]int{},
		typed:     map[string]int{},
		told:      map[Kind]*Gap{},
		left:      left{ofUse: r.opts.PodsOfUse},
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

// snapshot makes the snapshot once everything is read.
func (c *collector) snapshot(name string, opts ReadOptions) (*Snapshot, []Warning, error) {
	fail := func(format string, args ...any) (*Snapshot, []Warning, error) {
		return nil, c.warnings(), fmt.Errorf("%s: "+format, append([]any{plain(name)}, args...)...)
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
	gaps, err := c.believe(opts.Whole, c.gaps())
	if err != nil {
		return fail("%w", err)
	}
	*c.reading = reading{limits: c.limits, opts: c.opts} // of a large file it is large
	c.seen, c.left = seen{}, left{}
	c.objects.ShareNames()
	s := New(takenAt.UTC(), source, c.objects, gaps)
	if s.Controller = c.controller; s.Controller != nil {
		s.Controller.Sort()
	}
	s.Manager = c.manager
	s.NamesHashed = c.header != nil && c.header.Names == namesHashed
	for _, l := range c.backends {
		l.Sort()
	}
	listed := s.TakenAt
	if !c.began.IsZero() && c.began.Before(listed) {
		listed = c.began
	}
	s.Backends = append(c.backends, c.drivers.Taken(listed.UTC(), func(note string) { c.notes = append(c.notes, Warning(plain(note))) })...)
	return s, c.warnings(), nil
}

// merge takes over all that another collector has read.
func (c *collector) merge(o *collector) error {
	for _, s := range resources {
		if err := c.mergeKind(o, s.Kind); err != nil {
			return err
		}
	}
	maps.Copy(c.twice, o.twice)
	for kind := range o.truncated {
		c.truncated[kind] = true
	}
	maps.Copy(c.unread, o.unread)
	maps.Copy(c.refused, o.refused)
	maps.Copy(c.broken, o.broken)
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

// mergeKind takes over the objects of one kind that are not there yet.
func (c *collector) mergeKind(o *collector, kind Kind) error {
	s := resourceOf(kind)
	for object := range s.all(&o.objects) {
		known, err := c.seen.merge(identity{kind, object.GetNamespace(), object.GetName()}, &o.seen)
		if err != nil {
			return err
		}
		c.total++
		if known != seenAlready {
			s.add(&c.objects, object)
			c.countKnown(kind, known)
		}
	}
	if kind != Pods {
		return nil
	}
	for pod := range o.left.all() {
		known, err := c.seen.merge(pod.identity(), &o.seen)
		if err != nil {
			return err
		}
		c.total++
		if known != seenAlready {
			c.left.pods = append(c.left.pods, pod)
			c.countKnown(kind, known)
		}
	}
	return nil
}

// takeKind takes over the objects of one kind. None of them may be there yet.
func (c *collector) takeKind(o *collector, kind Kind) {
	s := resourceOf(kind)
	for object := range s.all(&o.objects) {
		s.add(&c.objects, object)
	}
	if kind == Pods {
		c.left.taken = append(append(c.left.taken, o.left.taken...), o.left.pods)
	}
	c.counts[kind] += o.counts[kind]
	c.total += o.counts[kind]
	c.twice[kind] = c.twice[kind] || o.twice[kind]
}
