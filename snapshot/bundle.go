package snapshot

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/archive"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// longestGathering is how long before the time of a bundle its objects may have been read where it does
// not say when the tool began. A list of the storage system counts that long.
const longestGathering = 15 * time.Minute

// besideName is the name of a file with kubectl output that a user adds to a bundle, for kinds that
// bundles of its format never contain.
const besideName = "volume-doctor"

// maxTold is the number of bytes that are read of a file that describes a bundle and holds no list.
const maxTold = 4 << 20

// tree reads the files of a directory or of an archive one by one, in the order in which they come.
// If their paths are those of a bundle of a support tool, tree reads only the lists in it, and the
// layout determines which lists are complete: a bundle contains many other files, and it proves
// nothing about what it lacks.
type tree struct {
	*reading
	roots map[string]*root
	// lists is the number of lists of bundles. The input is a bundle if there is one.
	lists int

	// plain reads the files that belong to no bundle; failed is the error that stopped it.
	plain  *collector
	failed error
	passed passed
	// texts is the number of .txt files that hold objects.
	texts int
	// unzipped is the number of bytes of gzip files that may still be unpacked.
	unzipped int64
	beside   *collector
	dump     dump
	// drivers reads the storage drivers' own objects in a bundle.
	drivers *collector
	// stems are the paths of the files that drivers has read, without their extensions.
	stems sets.Set[string]
}

func newTree(limits limits, opts ReadOptions) *tree {
	r := newReading(limits, opts)
	t := &tree{reading: r, plain: r.collector(), beside: r.collector(), drivers: r.collector(), roots: map[string]*root{}, stems: sets.New[string]()}
	t.plain.oneOfMany = true
	t.unzipped = limits.unpacked
	return t
}

// root is one folder of a bundle. A must-gather has one for each image.
type root struct {
	*format
	path  string
	parts map[partKey]*part
	// namespaces are all namespaces of the cluster; nil if the bundle does not list them.
	namespaces []string
	kubeSystem types.UID // of the namespace
	// asked are the lists that the tool asked for, if the bundle says so: one of them without a file is empty.
	asked map[partKey]bool
	// narrowed reports whether the bundle's settings say that the tool asked for some objects only.
	narrowed bool
	// said is the tool's message about each list that it could not read, by namespace.
	said    map[Kind]map[string]string
	version string
	began   time.Time
	times   fileTime
	// stamped is the number of times in its timestamp file.
	stamped int
	// ended reports whether the tool finished gathering.
	ended bool
}

// format is the layout of the files that one tool writes.
type format struct {
	name string
	// singles reports whether a list may be one file for each object. Such lists are complete only
	// if the tool finished gathering.
	singles bool
	// selects reports whether settings decide which objects a list contains, so that no list is
	// complete.
	selects bool
	// untyped reports whether the objects lack their kind.
	untyped bool
	// restore undoes what the tool does to each line; nil if it does nothing.
	restore func(line []byte) []byte
	// padded reports whether a zero byte may follow a text.
	padded bool
}

// read notes the age of a list that is taken from the folder.
func (r *root) read(l heldList) {
	if len(l.clock.latest) == 0 {
		return
	}
	r.times.join(&fileTime{file: r.path, at: l.clock.latest[0].at, beats: l.clock.beats, kinds: []Kind{l.kind}})
}

func (r *root) noteNamespace(n namespaceMeta) {
	r.namespaces = append(r.namespaces, n.Name)
	if n.Name == metav1.NamespaceSystem {
		r.kubeSystem = n.UID
	}
}

// partKey names a list: a kind, and a namespace or "" for the whole cluster.
type partKey struct {
	kind      Kind
	namespace string
	form      form
}

// form is how a bundle stores a list. The forms are ordered, the best first.
type form int

const (
	oneFile   form = iota // one file for the list
	oneEach               // one file for each object
	besidePod             // the pod's own folder, which also has its logs
)

// part is the content of one list.
type part struct {
	*collector
	err error
}

// bundleFile is what the path says about a file of a bundle.
type bundleFile struct {
	format *format
	root   string
	part   partKey
	// tell reads a file that is no list; it is nil for lists.
	tell func(r *root, text []byte)
}

func isBundleFile(p string) bool {
	_, ok := bundleFileOf(p)
	return ok
}

// wanted reports whether the file is read at all.
func (t *tree) wanted(p string) bool {
	p, _ = unzippedName(p)
	switch {
	case hidden(p):
		return false
	case isBundleFile(p):
		return true
	case !readable(p):
		return isText(p) && t.failed == nil && !t.isBundle()
	}
	if isDriversFile(p) || isBeside(p) || versionFiles[path.Base(p)].tell != nil {
		return true
	}
	return t.failed == nil && !t.isBundle()
}

// looksInto reports whether the beginning of a file that is not wanted may show that objects are missing.
func (t *tree) looksInto(p string) bool {
	return t.failed == nil && !t.isBundle() && path.Base(p) != "logs.txt" && !isArchive(p)
}

// isText reports whether the file may hold objects although its name does not say so: users rename
// .yaml files to .txt where they cannot attach .yaml.
func isText(p string) bool {
	return strings.ToLower(path.Ext(p)) == ".txt" && path.Base(p) != "logs.txt" && !hidden(p)
}

// errNoObjects is the error for a .txt file without objects.
var errNoObjects = errors.New("no objects")

// holdsObjects reports whether the text begins with an object, in any encoding.
func holdsObjects(head []byte) bool {
	return begins.Match(bytes.ReplaceAll(head, []byte{0}, nil))
}

var begins = regexp.MustCompile(`(?m)^.{0,3}(apiVersion|items|kind): ?[\w.-]*/?[\w.-]*\r?$|^.{0,3}[{\[]\s*"?(apiVersion|kind|items|metadata)"?:`)

func (t *tree) isBundle() bool { return t.lists > 0 }

// isDriversFile reports whether the path is that of Longhorn's own objects: in a folder for their
// API group, as support-bundle-kit and oc adm inspect write them, or for their
// CustomResourceDefinition, as troubleshoot.sh does.
func isDriversFile(p string) bool {
	segments := strings.Split(p, "/")
	i := slices.Index(segments, "longhorn.io")
	if i < 0 {
		above := path.Base(path.Dir(p))
		return slices.Contains(segments, "custom-resources") && (above == "volumes.longhorn.io" || above == "volumeattachments.longhorn.io")
	}
	return slices.ContainsFunc(segments[i+1:], func(s string) bool {
		plural := strings.TrimSuffix(s, path.Ext(s))
		return plural == "volumes" || plural == "volumeattachments"
	})
}

func isBeside(p string) bool { return strings.TrimSuffix(path.Base(p), path.Ext(p)) == besideName }

// file reads one file; name is for messages. After an error nothing more can be read.
func (t *tree) file(name, p string, in io.Reader) error {
	p, isZipped := unzippedName(p)
	if isZipped {
		var err error
		if in, err = archive.Unzipped(in, &t.unzipped, t.limits.unpacked); err != nil {
			in = failingReader{err}
		}
	}
	if isText(p) {
		text := bufio.NewReaderSize(in, 4<<10)
		if head, _ := text.Peek(4 << 10); !holdsObjects(head) {
			return cmp.Or(t.passed.look(name, text), errNoObjects)
		}
		t.texts++
		t.failed = t.passed.text(t.plain, name, text)
		return nil
	}
	f, ok := bundleFileOf(p)
	switch {
	case ok:
		r, err := t.root(f, name)
		if err != nil {
			return err
		}
		if f.tell == nil {
			return t.part(r, f, name, in)
		}
		if text, err := io.ReadAll(io.LimitReader(in, maxTold)); err == nil {
			f.tell(r, text)
		}
		return nil // a file that cannot be read leaves a gap
	case isDriversFile(p):
		stem := strings.TrimSuffix(p, path.Ext(p))
		if t.stems.Has(stem) {
			return nil // troubleshoot.sh has it in JSON and in YAML
		}
		t.stems.Insert(stem)
		in = &lineFilter{in: bufio.NewReaderSize(in, 64<<10), change: restoreKit}
		if err := t.drivers.text(name, in); err != nil { // the drivers' objects count completely or not at all
			t.drivers.notes = append(t.drivers.notes, Warning(fmt.Sprintf("objects of a storage driver are left out: %v", err)))
		}
		return nil
	case isBeside(p):
		return t.beside.text(name, in)
	case versionFiles[path.Base(p)].tell != nil:
		return t.versionFile(name, p, in)
	default:
		t.dump.note(p)
		t.failed = t.passed.text(t.plain, name, in)
		return nil
	}
}

// failingReader stands in for a file that cannot be opened.
type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// versionFiles are the files that contain the release of the cluster.
var versionFiles = map[string]struct {
	format *format
	tell   func(r *root, text []byte)
}{
	crustGatherVersion: {crustGather, tellVersionFile},
	kitMetadata:        {supportBundleKit, tellKitMetadata},
}

// versionFile reads a version file of a bundle. Outside a bundle, a file with such a name may hold
// objects.
func (t *tree) versionFile(name, p string, in io.Reader) error {
	of := versionFiles[path.Base(p)]
	r, err := t.root(bundleFile{format: of.format, root: strings.TrimSuffix(strings.TrimSuffix(p, path.Base(p)), "/")}, name)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(io.LimitReader(in, maxTold))
	if err == nil {
		of.tell(r, text)
	}
	if t.failed == nil && !t.isBundle() {
		t.failed = t.passed.text(t.plain, name, io.MultiReader(bytes.NewReader(text), in))
	}
	return nil
}

func (t *tree) root(f bundleFile, name string) (*root, error) {
	r, ok := t.roots[f.root]
	if !ok {
		if len(t.roots) >= t.limits.lists {
			return nil, fmt.Errorf("%s: more than %d folders in one bundle", plain(name), t.limits.lists)
		}
		r = &root{format: f.format, path: f.root, parts: map[partKey]*part{}, said: map[Kind]map[string]string{}}
		t.roots[f.root] = r
	}
	if len(r.parts) == 0 {
		r.format = f.format // a list identifies the format better than a version file
	}
	return r, nil
}

// part reads one file of a list. If the file cannot be read, only that list is lost.
func (t *tree) part(r *root, f bundleFile, name string, in io.Reader) error {
	if list := r.parts[partKey{f.part.kind, f.part.namespace, oneFile}]; f.part.form == besidePod && list != nil && list.err == nil {
		return nil // the same pod again, read at another time
	}
	p, ok := r.parts[f.part]
	if ok && f.part.form == oneFile {
		p.err = cmp.Or(p.err, fmt.Errorf("%s: a second file of the list", plain(name)))
		return nil
	}
	if !ok {
		if t.lists++; t.lists > t.limits.lists {
			return fmt.Errorf("%s: more than %d lists in one bundle", plain(name), t.limits.lists)
		}
		p = &part{collector: t.collector()}
		if k := resourceOf(f.part.kind); r.untyped {
			p.items = typeName{k.Version, k.Object}
		}
		r.parts[f.part] = p
	}
	if r.padded {
		var err error
		if in, err = withoutPadding(in, t.limits.document); err != nil {
			p.judge(f, name, p.total, err)
			return nil
		}
	}
	if r.restore != nil {
		in = &lineFilter{in: bufio.NewReaderSize(in, 64<<10), change: r.restore}
	}
	before := p.total
	p.judge(f, name, before, p.text(name, in))
	return nil
}

// judge notes an error in a file of the list, unless there was one before. The argument before is
// p.total as it was before the file was read.
func (p *part) judge(f bundleFile, name string, before int, err error) {
	switch {
	case err != nil:
	case f.part.form != oneFile && p.total == before:
		err = fmt.Errorf("%s: no object in it", plain(name))
	case p.counts[f.part.kind] != len(p.seen.states), len(p.ignored) > 0:
		err = fmt.Errorf("%s: other objects than %s in it", plain(name), f.part.kind)
	case f.part.form == oneFile && p.lists[""]+p.lists[f.part.kind] == 0 && p.refused[f.part.kind].Kind == "":
		err = fmt.Errorf("%s: no list in it", plain(name))
	case !sets.New(f.part.namespace).IsSuperset(p.namespaces):
		err = fmt.Errorf("%s: not all objects in it are of namespace %s", plain(name), plain(f.part.namespace))
	}
	if f.part.form == oneFile { // no more objects will come
		p.seen = seen{}
	}
	p.err = cmp.Or(p.err, err)
}

// snapshot makes the snapshot after all files were read.
func (t *tree) snapshot(name string, opts ReadOptions) (*Snapshot, []Warning, error) {
	if err := t.clusters.err(); err != nil && !t.isBundle() {
		return nil, nil, err
	}
	if !t.isBundle() {
		if t.failed == nil {
			t.failed = t.plain.merge(t.beside)
		}
		if t.failed == nil {
			t.failed = t.passed.end(t.plain)
		}
		t.plain.dropSuperseded()
		t.plain.ofOtherTimes()
		if t.failed != nil {
			return nil, t.plain.warnings(), t.failed
		}
		for _, kind := range []Kind{Events, Pods} {
			gap := t.dump.gap(kind)
			if t.beside.counts[kind] > 0 {
				gap = nil // the kubectl output counts for what the dump does not know
			}
			if t.dump.gap(kind) != nil && t.plain.header == nil {
				t.plain.told[kind] = gap
			}
		}
		return t.plain.snapshot(name, opts)
	}
	if t.beside.header != nil {
		return nil, nil, fmt.Errorf("%s: a snapshot of its own, and no part of a bundle: read it alone", plain(t.beside.headerAt.file))
	}
	for _, r := range t.bundles() {
		t.clusters.namespace(r.path, r.kubeSystem)
	}
	if err := t.clusters.err(); err != nil {
		return nil, nil, err
	}
	c := t.collector()
	t.assemble(c)
	return c.snapshot(name, opts)
}

// assemble joins the lists. Each list comes from a single folder: two folders were written at
// different times, and one of them would still contain objects that had been deleted by then.
func (t *tree) assemble(c *collector) {
	roots := t.bundles()
	for _, r := range resources {
		kind := r.Kind
		held := chooseLists(roots, kind)
		gap := wholeness(kind, roots, held)
		for _, l := range held {
			if l.err == nil {
				c.clock.merge(&l.clock)
			}
		}
		if gap != nil && t.beside.counts[kind] > 0 {
			c.told[kind] = t.beside.flaw(kind)
			// The kubectl output counts for what the bundle does not know. It was written later,
			// and so says nothing about the time of the bundle.
			c.takeKind(t.beside, kind)
			continue
		}
		if gap == nil && slices.ContainsFunc(roots, func(r *root) bool { return r.hasAsked(kind) }) {
			c.lists[kind]++ // an archive that has lost a file looks the same: other objects may show that
		} else {
			c.told[kind] = gap
		}
		for _, l := range held {
			if l.err == nil {
				l.root.read(l)
				c.takeKind(l.collector, kind) // each list has a namespace of its own
				l.objects, l.seen, l.left = Objects{}, seen{}, left{}
			}
		}
	}
	if len(t.drivers.notes) == 0 {
		c.drivers = t.drivers.drivers
		c.drivers.Bundled()
	}
	c.notes = append(c.notes, t.drivers.notes...)
	for _, r := range roots {
		c.version = cmp.Or(c.version, r.version)
		if !r.began.IsZero() && (c.began.IsZero() || r.began.Before(c.began)) {
			c.began = r.began
		}
	}
	for _, r := range roots {
		c.clock.of.add(r.times)
	}
	if len(roots) > 1 {
		c.ofOtherTimes()
		c.notes = append(c.notes, Warning(fmt.Sprintf("the bundle has %d folders: where two hold the same list, that of the one before is read: %s", len(roots), rootNames(roots))))
	}
}

func rootNames(roots []*root) string {
	names := make([]string, 0, len(roots))
	for _, r := range roots {
		names = append(names, plain(r.path))
	}
	return some(names)
}

// bundles returns the folders that hold lists, the folder with the most kinds first.
func (t *tree) bundles() []*root {
	var roots []*root
	for _, r := range t.roots {
		if len(r.parts) > 0 {
			r.ended = r.stamped >= 2 && r.stamped%2 == 0 || !r.singles
			roots = append(roots, r)
		}
	}
	whole := func(r *root) bool { return !r.selects }
	if slices.ContainsFunc(roots, whole) { // drops an insights archive within a must-gather
		roots = slices.DeleteFunc(roots, func(r *root) bool { return r.selects })
	}
	kinds := map[*root]int{}
	for _, r := range roots {
		held := map[Kind]bool{}
		for key := range r.parts {
			held[key.kind] = true
		}
		kinds[r] = len(held)
	}
	slices.SortFunc(roots, func(a, b *root) int {
		return cmp.Or(cmp.Compare(kinds[b], kinds[a]), cmp.Compare(a.path, b.path))
	})
	return roots
}
