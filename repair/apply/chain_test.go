package apply

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// textSink keeps a journal as text.
type textSink struct{ strings.Builder }

func (s *textSink) Sync() error { return nil }

// writtenJournal is the text of a journal with this many writes, each with its
// outcome.
func writtenJournal(t testing.TB, name string, writes int) string {
	t.Helper()
	sink := &textSink{}
	j := NewJournal(sink, func() time.Time { return time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC) }, nil)
	for i := range writes {
		volume := fmt.Sprintf("%s-%d", name, i)
		number, err := j.intent(Entry{Written: repair.Written{
			Server: "https://memory", Repair: repair.PatchNodeStatus, Operation: &repair.Operation{Verb: repair.VerbPatch, Patch: []byte(`"` + volume + `"`)},
			Finding: &repair.FindingRef{Code: "VD301", Volume: volume, Subject: finding.Object{Kind: "Pod", Name: "p"}},
		}})
		if err == nil {
			err = j.ended(number, Repaired, "")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return sink.String()
}

// TestJournalLinesAreChained: one line changed, removed, copied, moved or taken
// from another journal is refused, and the error names a line. Whole lines lost
// at the end cannot be seen.
func TestJournalLinesAreChained(t *testing.T) {
	whole := slices.Collect(strings.Lines(writtenJournal(t, "a", 4)))
	other := slices.Collect(strings.Lines(writtenJournal(t, "b", 4)))
	if entries, _, err := ReadJournal(strings.NewReader(strings.Join(whole, ""))); err != nil || len(entries) != 8 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	refused := func(how string, at int, lines []string) {
		t.Helper()
		entries, _, err := ReadJournal(strings.NewReader(strings.Join(lines, "")))
		if err == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("line %d %s: %d entries, %v", at+1, how, len(entries), err)
		}
	}
	for i, line := range whole {
		edited := slices.Clone(whole)
		edited[i] = strings.Replace(line, "10:00:00", "11:00:00", 1)
		refused("edited", i, edited)
		spaced := slices.Clone(whole)
		spaced[i] = " " + line
		refused("with a blank before it", i, spaced)
		bare := slices.Clone(whole)
		bare[i] = line[:strings.Index(line, digestStart)] + "}\n"
		refused("without its digest", i, bare)
		refused("copied", i, slices.Insert(slices.Clone(whole), i, line))
		foreign := slices.Clone(whole)
		foreign[i] = other[i]
		refused("from another journal", i, foreign)
		if i > 0 {
			refused("and the rest from another journal", i, append(slices.Clone(whole[:i]), other[i:]...))
		}
		if i+1 < len(whole) {
			refused("removed", i, slices.Delete(slices.Clone(whole), i, i+1))
			swapped := slices.Clone(whole)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			refused("moved", i, swapped)
		}
	}
}

// TestJournalWithoutDigests: a journal without digests is refused; no release has written
// one.
func TestJournalWithoutDigests(t *testing.T) {
	if _, _, err := ReadJournal(strings.NewReader(intentLine + outcomeLine)); !errors.Is(err, errNoDigest) {
		t.Error(err)
	}
}

// TestDamagedJournal: however a journal is damaged, reading it gives a beginning of what was
// written, or nothing.
func TestDamagedJournal(t *testing.T) {
	whole := writtenJournal(t, "a", 4)
	all, _, err := ReadJournal(strings.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		text := []byte(whole)
		for range rapid.IntRange(1, 3).Draw(rt, "damages") {
			from := rapid.IntRange(0, len(text)).Draw(rt, "from")
			to := rapid.IntRange(from, min(len(text), from+rapid.SampledFrom([]int{1, 40, len(text)}).Draw(rt, "span"))).Draw(rt, "to")
			put := rapid.OneOf(
				rapid.SliceOfN(rapid.Byte(), 0, 3),
				rapid.Just(slices.Clone(text[from:to])),
				rapid.Map(rapid.SampledFrom(slices.Collect(strings.Lines(whole))), func(s string) []byte { return []byte(s) }),
			).Draw(rt, "put")
			if rapid.Bool().Draw(rt, "replace") {
				text = slices.Replace(text, from, to, put...)
			} else {
				text = slices.Insert(text, from, put...)
			}
		}
		entries, intact, err := ReadJournal(strings.NewReader(string(text)))
		if err != nil {
			return
		}
		if !strings.HasPrefix(whole, string(text[:intact])) || len(entries) > len(all) {
			rt.Fatalf("accepted: %s", text)
		}
		if diff := cmp.Diff(all[:len(entries)], append([]Entry{}, entries...)); diff != "" {
			rt.Fatal(diff)
		}
	})
}

// TestEndlessJournal: a device that never ends is refused as a journal.
func TestEndlessJournal(t *testing.T) {
	if _, _, err := ReadJournal(zeros{}); err == nil || err.Error() != "the journal has more than 64 MiB" {
		t.Error(err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestJournalStopsAfterAFailure: a line that was only partly written is the journal's last;
// another line after it would make the whole file unreadable.
func TestJournalStopsAfterAFailure(t *testing.T) {
	sink := &tornSink{left: 700}
	j := NewJournal(sink, time.Now, nil)
	entry := Entry{Written: repair.Written{Repair: repair.PatchNodeStatus, Operation: &repair.Operation{}, Finding: &repair.FindingRef{}}}
	number, err := j.intent(entry)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.ended(number, Repaired, strings.Repeat("x", 700)); err == nil {
		t.Fatal("the disk is full, and nobody says so")
	}
	sink.left = 1 << 20
	if _, err := j.intent(entry); err == nil {
		t.Error("it goes on after a torn line")
	}
	if entries, _, err := ReadJournal(strings.NewReader(sink.String())); err != nil || len(entries) != 1 {
		t.Errorf("%d entries, %v", len(entries), err)
	}
}

// tornSink takes so many bytes and then fails in the middle of a line.
type tornSink struct {
	textSink
	left int
}

func (s *tornSink) Write(line []byte) (int, error) {
	n := min(s.left, len(line))
	s.left -= n
	s.textSink.Write(line[:n])
	if n < len(line) {
		return n, io.ErrShortWrite
	}
	return n, nil
}
