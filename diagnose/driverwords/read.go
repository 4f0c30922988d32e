package driverwords

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Layer is how the meaning of a message is known. A lower one says less.
type Layer string

// The layers, from the surest to the least sure.
const (
	// OwnWords are words of the driver's own, as the table has them.
	OwnWords Layer = "driver"
	// TheObjects contradict what the words alone would mean.
	TheObjects Layer = "objects"
	// ToolWords are words or numbers of a tool, of the kubelet or of the attacher.
	ToolWords Layer = "tool"
	// OthersWords are the words of another driver.
	OthersWords Layer = "other-driver"
	// PlainWords are plain English words in the message.
	PlainWords Layer = "plain-words"
	// CodeAlone is a gRPC code, an HTTP status, or words that only wrap a cause.
	CodeAlone Layer = "code"
)

// Sure reports whether somebody has read what the words mean, rather than this package
// having taken it from what they are made of.
func (l Layer) Sure() bool {
	return l == "" || l == OwnWords || l == TheObjects || l == ToolWords
}

// Read returns what a message of the driver means, and how that is known: by the driver's
// own words, by those of a tool and its exit code, by another driver's words, by plain
// English words, and by a code alone, in this order. It returns false only where all fail.
func Read(driver, message string) (Entry, bool) {
	return theAnswers.read(question{driver, message})
}

// answers keeps what was read of the messages. One look asks about the same message many
// times, and with --watch so does each look: those at one volume whose detach is refused
// take a fifth of the time with them.
type answers struct {
	mutex sync.Mutex
	known map[question]answer
}

type question struct{ driver, message string }

type answer struct {
	entry Entry
	ok    bool
}

// mostAnswers bounds what is kept: a cluster has few messages that differ.
const mostAnswers = 1024

var theAnswers = answers{known: map[question]answer{}}

func (a *answers) read(q question) (Entry, bool) {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	found, ok := a.known[q]
	if !ok {
		if len(a.known) == mostAnswers {
			clear(a.known)
		}
		found.entry, found.ok = read(q.driver, q.message, nil)
		found.entry = found.entry.ofMapped(q.message)
		a.known[q] = found
	}
	return found.entry, found.ok
}

// without leaves entries and numbers out, so that a test can show what is known without
// them.
type without struct {
	entries func(Entry) bool
	tool    string
	numbers bool // of all programs
}

func read(driver, message string, leave *without) (Entry, bool) {
	lower := strings.ToLower(message)
	best, other := -1, -1
	agreed := true
	for n := range theIndex.matches(lower) {
		e := table[n]
		switch {
		case leave != nil && leave.entries != nil && leave.entries(e):
		case says(e, driver):
			if best < 0 || moreSpecific(n, best) {
				best = n
			}
		case !e.Wrapper:
			if other >= 0 && !Near(table[other].Meaning, e.Meaning) {
				agreed = false
			}
			if other < 0 || moreSpecific(n, other) {
				other = n
			}
		}
	}
	if best >= 0 && !table[best].Wrapper {
		return known(table[best]), true
	}
	m := Apart(message)
	tool := ""
	if leave != nil {
		tool = leave.tool
		if leave.numbers {
			m.Exits = nil
		}
	}
	plain, ok := plainMeans(m)
	// no number says that a program is missing
	if e, numbered := numberMeans(m, false, tool); numbered && (!ok || plain.Meaning != ToolMissing) {
		e.Layer = ToolWords
		return e, true
	}
	if other >= 0 && agreed {
		e := table[other]
		e = meant(e.Meaning, e.Words, "", e.Source)
		e.Drivers, e.Layer = table[other].Drivers, OthersWords
		return e, true
	}
	if ok && (best < 0 || plain.Meaning != TimedOut) {
		return plain, true // that it took too long the code says as well
	}
	if best >= 0 {
		e := known(table[best])
		e.Layer = CodeAlone
		return e, true
	}
	if e, ok := numberMeans(m, true, tool); ok {
		e.Layer = CodeAlone
		return e, true
	}
	return Entry{}, false
}

// Plain returns what the plain English words of a message say.
func Plain(message string) (Entry, bool) {
	return plainMeans(Apart(message))
}

func plainMeans(m Message) (Entry, bool) {
	meaning, words, ok := classMeans(m.Rest)
	if !ok {
		return Entry{}, false
	}
	e := meant(meaning, words, "", "")
	e.Layer = PlainWords
	return e, true
}

// everyday are words that are no name of an error, an interface or a product.
var everyday = regexp.MustCompile(`^[A-Za-z]?[a-z ,'{}.]+$`)

// OfAnother is what the words of a driver's entry mean where another driver says them, and
// true where any driver may: they are everyday words that mean the same to whoever reads them,
// and the message names no driver that has them.
func (e Entry) OfAnother(message string) (Entry, bool) {
	message = strings.ToLower(message)
	named := slices.ContainsFunc(e.Drivers, func(name string) bool { return strings.Contains(message, strings.TrimSuffix(name, "*")) })
	plain, ok := Plain(e.Words)
	about := meanings[e.Meaning]
	if len(e.Drivers) == 0 || named || e.Wrapper || !ok || !Near(plain.Meaning, e.Meaning) || !everyday.MatchString(e.Words) || e.Actor != about.Actor {
		return Entry{}, false
	}
	return meant(e.Meaning, e.Words, "", e.Source), true
}

var (
	passing = regexp.MustCompile(`\b(?:yet|still|being|already (?:exists|running|in progress|processed|being)|in progress|under ?way|ongoing|pending|attaching|detaching|deleting|creating|resizing|migrating|flatten\w*|optimizing|initiali[sz]\w*|starting|transient|throttl\w*|too many requests|rate|request limit|limiter|back-?off|try again|retr(?:y|ied|iable)|task state|locked|another (?:operation|request)|preempted|no relationship|watch error)\b`)
	lasting = regexp.MustCompile(`\bor\b.*\bfailed\b|\bin-use\b|\bstuck\b|\berror state\b|\bnot retriable\b|\bretriable false\b`)
)

// Passes reports whether the message, where it has the entry's words, itself speaks of something
// that ends, such as an operation that runs, and of nothing that need not.
func (e Entry) Passes(message string) bool {
	rest, words := plain(message), plain(e.Words)
	if lasting.MatchString(rest) {
		return false
	}
	clauses := clauseEnds.Split(rest, -1)
	here := max(0, slices.IndexFunc(clauses, func(clause string) bool { return strings.Contains(clause, words) }))
	return passing.MatchString(strings.Join(clauses[here:], ", ")) // what stands before it is of something else
}

func known(e Entry) Entry {
	e.Layer = ToolWords
	if len(e.Drivers) > 0 {
		e.Layer = OwnWords
	}
	return e
}

// kin are meanings beside which the same people look in the same place: one for the other
// sends nobody the wrong way.
var kin = [][]Meaning{
	{NodeUnknown, MachineGone, ObjectNotFound},
	{NodeUnknown, NotRegistered, DriverUnavailable},
	{VolumeNotFound, ObjectNotFound},
	{AttachedElsewhere, MultiAttach},
	{BackendBusy, OperationPending, MachineBusy, VolumeNotReady, TimedOut, BackendStuck},
	{DriverUnavailable, TimedOut, Unreachable, VolumeNotReady},
	{DeviceMissing, NotAttached, PathsMissing},
	{DeviceMissing, MapperMissing},
	{PathsMissing, MapperMissing},
	{PermissionDenied, SecretMissing},
	{AttachLimit, QuotaReached, OutOfSpace},
	{BadParameters, DriverConfig, AccessType},
	{ToolMissing, NodeIncompatible},
	{FilesystemDamaged, WrongFilesystem},
	{WrongFilesystem, DuplicateUUID},
	{FilesystemDamaged, FilesystemTooLarge},
	{FilesystemDamaged, GrowRefused},
	{StorageError, VolumeFailed},
	{ReadOnly, AccessType},
}

// Near reports whether the meanings are the same or kin.
func Near(a, b Meaning) bool {
	if a == b {
		return true
	}
	for _, group := range kin {
		found := 0
		for _, m := range group {
			if m == a || m == b {
				found++
			}
		}
		if found == 2 {
			return true
		}
	}
	return false
}

// mapped is a device that the node itself makes of others: a decrypted one, or one of several
// paths. That it is missing shows nothing of what is attached.
var mapped = regexp.MustCompile(`/dev/mapper/|/dev/dm-\d`)

// ofMapped is the entry, or what it means of a mapped device.
func (e Entry) ofMapped(message string) Entry {
	if e.Meaning != DeviceMissing || !mapped.MatchString(message) {
		return e
	}
	about := meanings[MapperMissing]
	e.Meaning, e.Actor, e.Helps = MapperMissing, about.Actor, about.Helps
	return e
}
