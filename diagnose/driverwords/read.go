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
	// OwnWords are the driver's own words, from the table.
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

// Sure reports whether a person has read the words' meaning; else this package has derived it.
func (l Layer) Sure() bool {
	return l == "" || l == OwnWords || l == TheObjects || l == ToolWords
}

// Read returns the meaning of the driver's message. It tries the driver's own words, those of a
// tool and its exit code, another driver's words, plain English words, and a code alone, in this
// order. It returns false only where all fail.
func Read(driver, message string) (Entry, bool) {
	return theAnswers.read(question{driver, message})
}

// answers caches the meanings of messages. One look reads the same message many times, and with
// --watch each look does. With a cache, reading the messages of one volume whose detach is
// refused takes a fifth of the time.
type answers struct {
	mutex sync.Mutex
	known map[question]answer
}

type question struct{ driver, message string }

type answer struct {
	entry Entry
	ok    bool
}

// mostAnswers limits the cache: a cluster has few different messages.
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
		found.entry = found.entry.in(q.message)
		a.known[q] = found
	}
	return found.entry, found.ok
}

// without leaves entries and numbers out, so that a test can show what is known without them.
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

// Plain returns the meaning of a message's plain English words.
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

// everyday matches words that name no error, interface or product.
var everyday = regexp.MustCompile(`^[A-Za-z]?[a-z ,'{}.]+$`)

// OfAnother is the meaning of a driver's entry for a message of another driver. It is true for
// everyday words, which mean the same for every driver, where the message names no driver that
// has them.
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
	passing = regexp.MustCompile(`\b(?:yet|still|being|already (?:exists|running|in progress|processed|being)|in progress|under ?way|ongoing|pending|flatten\w*|optimizing|initiali[sz]\w*|transient|throttl\w*|too many requests|rate|request limit|limiter|back-?off|try again|retr(?:y|ied|iable)|task state|locked|another (?:operation|request)|preempted|no relationship|watch error)\b|` + inState + `(?:detaching|deleting|creating|resizing|migrating|starting)\b`)
	lasting = regexp.MustCompile(`\bor\b.*\bfailed\b|\bin-use\b|\bstuck\b|\berror state\b|\bnot retriable\b|\bretriable false\b`)
)

// Passes reports whether the message, beside the entry's words, itself names something that ends,
// such as a running operation, and nothing that may not.
func (e Entry) Passes(message string) bool {
	rest, words := plain(message), plain(e.Words)
	if lasting.MatchString(rest) {
		return false
	}
	clauses := clauseEnds.Split(rest, -1)
	here := max(0, slices.IndexFunc(clauses, func(clause string) bool { return strings.Contains(clause, words) }))
	return passing.MatchString(strings.Join(clauses[here:], ", ")) // the text before it is about something else
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
	{NameNotFound, BadParameters},
	{ObjectRejected, BadParameters},
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

var (
	// mapped is a device that the node itself makes of others: a decrypted one, or one of several
	// paths. A missing one proves nothing about attached devices.
	mapped = regexp.MustCompile(`/dev/mapper/|/dev/dm-\d`)
	// unwritable is what the kernel answers to a write to a read-only device: no right is missing.
	unwritable = regexp.MustCompile(`(?i)\boperation not permitted while (?:setting up superblock|writing)|\bpwrite failed: operation not permitted`)
	// inError is a state that no storage system leaves by itself.
	inError = regexp.MustCompile(`(?i)\b(?:status|state)["']?(?: is|:|=)* ?["']?error(?:\W|$)|\b(?:is|in) (?:an? )?error state\b`)
)

// in is the entry, or what else it means where the message is about a mapped device, a read-only
// one or a volume in the state error.
func (e Entry) in(message string) Entry {
	var other Meaning
	switch {
	case e.Meaning == DeviceMissing && mapped.MatchString(message):
		other = MapperMissing
	case e.Meaning == PermissionDenied && unwritable.MatchString(message):
		other = ReadOnly
	case (e.Meaning == BackendBusy || e.Meaning == VolumeNotReady || e.Meaning == OperationPending) && inError.MatchString(message):
		other = VolumeFailed
	default:
		return e
	}
	about := meanings[other]
	e.Meaning, e.Actor, e.Helps = other, about.Actor, about.Helps
	return e
}
