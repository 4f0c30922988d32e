package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// spliced replaces cut bytes of the text with others.
func spliced(text string, at uint16, cut uint8, insert string) string {
	from := int(at) % (len(text) + 1)
	return text[:from] + insert + text[min(from+int(cut), len(text)):]
}

// undoing is a world after its repair, in which only the journal decides what is undone.
// Nothing is ever written to it.
type undoing struct {
	*memory
	journal string
	sent    []repair.Operation
	// genuine are the writes to which the unchanged journal leads.
	genuine []repair.Operation
}

func fuzzedWorlds(f *testing.F) (worlds []*undoing) {
	for _, world := range []func(testing.TB) *memory{lostEntry, comingBack, phantom, idle, lostStatefulSet, volumeGone, orphan} {
		u := &undoing{memory: world(f)}
		u.journal = string(repaired(f, u.memory).data)
		u.node("n1").Status.VolumesInUse = nil
		u.before = func(op repair.Operation, _ bool) error {
			u.sent = append(u.sent, op)
			return repair.ErrForbidden
		}
		entries, _, err := ReadJournal(strings.NewReader(u.journal))
		if err != nil || len(entries) == 0 {
			f.Fatalf("world %d: %d entries, %v", len(worlds), len(entries), err)
		}
		u.genuine = u.writes(f, entries)
		worlds = append(worlds, u)
	}
	return worlds
}

// writes are the requests that Undo sends, none of which is carried out.
func (u *undoing) writes(t testing.TB, entries []Entry) []repair.Operation {
	u.sent = nil
	a, _ := u.applier()
	if _, err := a.Undo(t.Context(), entries); err != nil && len(u.sent) > 0 && !errors.Is(err, repair.ErrForbidden) {
		t.Fatalf("refused after a write: %v", err)
	}
	u.log, u.announced, u.now = nil, nil, epoch
	return u.sent
}

// forged is the text as a journal that this tool could have written: its entries, numbered
// and sealed again.
func forged(t *testing.T, text string) []Entry {
	var file sealed
	journal := NewJournal(&file, func() time.Time { return epoch }, nil)
	for line := range strings.Lines(text) {
		var e Entry
		if json.Unmarshal([]byte(line), &e) == nil {
			if err := journal.write(e); err != nil {
				t.Fatal(err)
			}
		}
	}
	entries, _, err := ReadJournal(&file)
	if err != nil {
		return nil
	}
	return entries
}

type sealed struct{ bytes.Buffer }

func (*sealed) Sync() error { return nil }

// FuzzReversal compares what a forged journal has undone with what the genuine journal has
// undone, over real journals with one place changed and with matching digests. Nothing else
// is ever sent.
func FuzzReversal(f *testing.F) {
	worlds := fuzzedWorlds(f)
	for i, u := range worlds {
		f.Add(uint8(i), uint16(0), uint8(0), "")
		for _, field := range []string{"target", "volume", "node", "uid", "name", "repair", "preImage", "undoes", "outcome", "kind", "code"} {
			if at := strings.Index(u.journal, `"`+field+`":"`); at >= 0 {
				f.Add(uint8(i), uint16(at+len(field)+4), uint8(2), "n2")
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint16, cut uint8, insert string) {
		u := worlds[int(which)%len(worlds)]
		text := spliced(u.journal, at, cut, insert)
		as, intact, err := ReadJournal(strings.NewReader(text))
		if err == nil {
			same, _, err := ReadJournal(strings.NewReader(text[:intact]))
			if err != nil || string(repair.Compact(same)) != string(repair.Compact(as)) {
				t.Fatalf("the intact part is another journal: %v", err)
			}
		}
		for _, entries := range [][]Entry{as, forged(t, text)} {
			for _, op := range u.writes(t, entries) {
				if !slices.ContainsFunc(u.genuine, func(g repair.Operation) bool { return sameWrite(g, op) }) {
					t.Fatalf("a forged journal has this sent:\n%s\nnot\n%s", repair.Compact(op), repair.Compact(u.genuine))
				}
			}
		}
	})
}

// FuzzReadApproved compares a saved file of repairs with one place changed with the proposed
// repairs. An accepted file writes back to the same text, and only proposed repairs are
// chosen.
func FuzzReadApproved(f *testing.F) {
	var texts []string
	var views []*repair.View
	var proposals [][]repair.Repair
	for _, world := range []func(testing.TB) *memory{lostEntry, comingBack, idle} {
		v, proposed := world(f).view()
		var file bytes.Buffer
		if err := Save(v, proposed).Write(&file); err != nil || len(proposed) == 0 {
			f.Fatal(err, len(proposed))
		}
		texts, views, proposals = append(texts, file.String()), append(views, v), append(proposals, proposed)
	}
	for i := range texts {
		f.Add(uint8(i), uint16(0), uint8(0), "")
		for _, field := range []string{"server", "fingerprint", "kind", "uid", "verb", "name", "patch"} {
			f.Add(uint8(i), uint16(strings.Index(texts[i], `"`+field+`": `)+len(field)+5), uint8(1), "x")
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, at uint16, cut uint8, insert string) {
		i := int(which) % len(texts)
		text := spliced(texts[i], at, cut, insert)
		approved, err := ReadApproved(strings.NewReader(text))
		if err != nil {
			return
		}
		var file bytes.Buffer
		if err := approved.Write(&file); err != nil {
			t.Fatal(err)
		}
		again, err := ReadApproved(&file)
		if err != nil || !bytes.Equal(repair.Compact(again), repair.Compact(approved)) {
			t.Fatalf("it is written again as another approved: %v\n%s", err, cmp.Diff(approved, again))
		}
		chosen, err := approved.Choose(views[i], proposals[i])
		if err != nil {
			return
		}
		for _, r := range chosen {
			fresh, reviewed := find(proposals[i], &r), find(approved.Repairs, &r)
			if fresh == nil || reviewed == nil {
				t.Fatalf("it was not proposed or not reviewed: %+v", r)
			}
			if !sameWrite(r.Do, reviewed.Do) {
				t.Fatalf("%s was reviewed, and %s is made", repair.Compact(reviewed.Do), repair.Compact(r.Do))
			}
		}
	})
}

// sameWrite reports whether two writes are the same but for the state on which they were
// worked out and the mark, both of which the shell command leaves out.
func sameWrite(a, b repair.Operation) bool {
	a.Target.ResourceVersion, b.Target.ResourceVersion = "", ""
	return a.Target == b.Target && a.Kubectl() == b.Kubectl()
}
