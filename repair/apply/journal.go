package apply

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// JournalKind is the kind of an Entry.
const JournalKind = "JournalEntry"

// EntryType is one of the two kinds of Entry.
type EntryType string

// Every write has two entries: the intent, which is on disk before the request is sent, and
// the outcome. An intent without an outcome is a write that was cut short; only the object
// can show whether it was made.
const (
	Intent EntryType = "intent"
	Ended  EntryType = "outcome"
)

// Entry is one line of a journal, which is a file of JSON objects, one a line.
type Entry struct {
	APIVersion string    `json:"apiVersion"` // volume-doctor/v1
	Kind       string    `json:"kind"`       // JournalEntry
	Type       EntryType `json:"type"`       // intent | outcome
	// Write numbers the writes of one journal from 1; an outcome has its
	// intent's number.
	Write int         `json:"write"`
	Time  metav1.Time `json:"time"`

	// Only an intent has these.

	repair.Written
	// Undoes is the number of the write that this one takes back.
	Undoes int `json:"undoes,omitempty"`

	// Only an outcome has these.

	Outcome Outcome `json:"outcome,omitempty"`
	Detail  string  `json:"detail,omitempty"`

	// Digest chains the entry to the one before it; see chain.go. It must stay
	// the last field.
	Digest string `json:"digest,omitempty"`
}

// MaxJournal is the largest journal that ReadJournal reads, in bytes. One write
// takes a few KiB.
const MaxJournal = 64 << 20

// Sink is where a journal is written. Sync returns once everything written is
// on disk; os.File is one.
type Sink interface {
	io.Writer
	Sync() error
}

// Journal writes down each write before and after it is made.
type Journal struct {
	sink Sink
	now  func() time.Time
	last int
	// digest is the digest of the last entry.
	digest string
	// failed is the reason why the sink can no longer be written to. After a line that was
	// only partly written, the next line would run into it.
	failed error
}

// NewJournal continues a journal after its earlier entries, if it has any. The
// sink must stand at the end of the intact part of the file.
func NewJournal(sink Sink, now func() time.Time, earlier []Entry) *Journal {
	j := &Journal{sink: sink, now: now}
	for _, e := range earlier {
		j.last = max(j.last, e.Write)
		j.digest = e.Digest
	}
	return j
}

// intent writes the entry as an intent and returns its number.
func (j *Journal) intent(e Entry) (int, error) {
	e.Type, e.Write = Intent, j.last+1
	if err := j.write(e); err != nil {
		return 0, err
	}
	j.last = e.Write
	return e.Write, nil
}

func (j *Journal) ended(write int, outcome Outcome, detail string) error {
	return j.write(Entry{Type: Ended, Write: write, Outcome: outcome, Detail: detail})
}

// write appends the line in one call, so that only the end of the file can ever
// be torn, and waits until it is on disk.
func (j *Journal) write(e Entry) error {
	if j.failed != nil {
		return j.failed
	}
	e.APIVersion, e.Kind, e.Time = finding.APIVersion, JournalKind, metav1.NewTime(j.now().UTC())
	line := seal(j.digest, &e)
	if _, err := j.sink.Write(line); err != nil {
		j.failed = fmt.Errorf("write the journal: %w", err)
	} else if err := j.sink.Sync(); err != nil {
		j.failed = fmt.Errorf("write the journal to disk: %w", err)
	}
	j.digest = e.Digest
	return j.failed
}

// entryStart is the start of every entry.
var entryStart = fmt.Sprintf(`{"apiVersion":%q,"kind":%q,`, finding.APIVersion, JournalKind)

// torn reports whether the text is an entry that lost its end. A file of any other
// kind, which somebody named by mistake, must not be cut short as if it were.
func torn(text string) bool {
	return strings.HasPrefix(text, entryStart) || strings.HasPrefix(entryStart, text)
}

// ReadJournal reads the entries of a journal. It drops a last line without its end, as a
// process that was killed leaves it: the request that the line would announce was never sent.
// Any other line that is not an entry, or that does not continue the entry before it, is an
// error, and so is a journal of more than MaxJournal bytes. intact is the length of the
// readable part: cut the file there before writing to it again.
func ReadJournal(r io.Reader) (entries []Entry, intact int64, err error) {
	limited := &io.LimitedReader{R: r, N: MaxJournal + 1}
	reader := bufio.NewReader(limited)
	var digest string
	open := map[int]bool{} // the writes announced; true while they lack an outcome
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		switch {
		case limited.N == 0:
			return nil, 0, fmt.Errorf("the journal has more than %d MiB", MaxJournal>>20)
		case errors.Is(err, io.EOF) && torn(string(line)):
			return entries, intact, nil
		case errors.Is(err, io.EOF):
			return nil, 0, fmt.Errorf("line %d of the journal is no entry", number)
		case err != nil:
			return nil, 0, fmt.Errorf("read the journal: %w", err)
		}
		e, err := parseEntry(line)
		if err == nil {
			err = continues(digest, line)
		}
		if err == nil {
			err = e.follows(open)
		}
		if err != nil {
			return nil, 0, fmt.Errorf("line %d of the journal: %w", number, err)
		}
		open[e.Write] = e.Type == Intent
		digest = e.Digest
		entries = append(entries, e)
		intact += int64(len(line))
	}
}

// parseEntry refuses fields that it does not know: a later release may have written something
// there that this one would wrongly ignore.
func parseEntry(line []byte) (Entry, error) {
	var e Entry
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		return Entry{}, err
	}
	if rest := bytes.TrimSpace(line[decoder.InputOffset():]); len(rest) > 0 {
		return Entry{}, errors.New("there is something after the entry")
	}
	switch {
	case e.APIVersion != finding.APIVersion || e.Kind != JournalKind:
		return Entry{}, fmt.Errorf("it is a %q of %q, not a %s of %s", e.Kind, e.APIVersion, JournalKind, finding.APIVersion)
	case e.Type == Intent && (e.Finding == nil || e.Operation == nil || e.Repair == ""):
		return Entry{}, errors.New("the intent lacks its finding, its repair or its operation")
	case e.Type == Ended && e.Outcome == "":
		return Entry{}, errors.New("the outcome says nothing")
	case e.Type != Intent && e.Type != Ended:
		return Entry{}, fmt.Errorf("there is no entry of type %q", e.Type)
	}
	return e, nil
}

// follows returns an error where the entry may not come after those read so far.
func (e *Entry) follows(open map[int]bool) error {
	unended, announced := open[e.Write]
	switch {
	case e.Write < 1:
		return fmt.Errorf("there is no write %d", e.Write)
	case e.Type == Intent && announced:
		return fmt.Errorf("write %d is announced twice", e.Write)
	case e.Type == Ended && !announced:
		return fmt.Errorf("write %d was never announced", e.Write)
	case e.Type == Ended && !unended:
		return fmt.Errorf("write %d has two outcomes", e.Write)
	}
	return nil
}
