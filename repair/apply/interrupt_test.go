package apply

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// TestInterruptedAnywhere: Ctrl-C between any two steps leaves either nothing
// written and no intent open, or a write whose outcome the journal has.
func TestInterruptedAnywhere(t *testing.T) {
	for step := 0; ; step++ {
		m := two(t)
		a, sink := m.applier()
		repairs := m.propose()
		ctx, cancel := context.WithCancel(t.Context())
		count := 0
		tick := func() {
			if count == step {
				cancel()
			}
			count++
		}
		m.before = func(repair.Operation, bool) error { tick(); return nil }
		m.after = func(repair.Operation, bool) error { tick(); return nil }
		m.looking = func(int) error { tick(); return nil }
		sink.fail = func([]byte) error { tick(); return nil }
		results, err := a.Apply(ctx, repairs)
		cancel()
		if count <= step {
			if err != nil || step < 10 {
				t.Errorf("uninterrupted after %d steps: %v", step, err)
			}
			return
		}
		open := map[int]bool{}
		for _, e := range sink.entries() {
			open[e.Write] = e.Type == Intent
		}
		for write, isOpen := range open {
			if isOpen {
				t.Errorf("step %d: the journal does not say what became of write %d", step, write)
			}
		}
		if len(m.stored) != len(open) {
			t.Errorf("step %d: %d writes, %d of them in the journal", step, len(m.stored), len(open))
		}
		for _, r := range results {
			if r.Outcome == Failed {
				t.Errorf("step %d: %+v", step, r)
			}
		}
	}
}

// TestKilledAnywhere: after a kill between any two steps a second run makes the repairs that
// are left, and none twice.
func TestKilledAnywhere(t *testing.T) {
	type kill struct{}
	for step := 0; ; step++ {
		m := lostEntry(t)
		a, sink := m.applier()
		repairs := m.propose()
		count := 0
		tick := func() {
			if count++; count > step {
				panic(kill{})
			}
		}
		m.before = func(repair.Operation, bool) error { tick(); return nil }
		m.after = m.before
		m.looking = func(int) error { tick(); return nil }
		sink.fail = func(line []byte) error {
			if count == step { // torn
				sink.data = append(sink.data, line[:len(line)/2]...)
			}
			tick()
			return nil
		}
		finished := func() (finished bool) {
			defer func() {
				if r := recover(); r != nil && r != any(kill{}) {
					panic(r)
				}
			}()
			_, err := a.Apply(t.Context(), repairs)
			return err == nil
		}()
		entries, _, err := ReadJournal(strings.NewReader(string(sink.data)))
		if err != nil {
			t.Fatalf("step %d: %v\n%s", step, err, sink.data)
		}
		if len(m.stored) > 0 && len(entries) == 0 {
			t.Fatalf("step %d: written without a word", step)
		}
		if finished {
			return
		}
		m.before, m.after, m.looking = nil, nil, nil
		again, _ := m.applier()
		if _, err := again.Apply(t.Context(), m.propose()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"vol-0", "vol-1"}, m.entries()); diff != "" || len(m.stored) != 1 {
			t.Errorf("step %d: %d writes %s", step, len(m.stored), diff)
		}
	}
}

func TestJournalThatFailsStopsEverything(t *testing.T) {
	full := errors.New("no space left on device")
	for fails, writes := range []int{0, 1} { // the intent, the outcome
		m := two(t)
		a, sink := m.applier()
		count := 0
		sink.fail = func([]byte) error {
			if count++; count > fails {
				return full
			}
			return nil
		}
		results, err := a.Apply(t.Context(), m.propose())
		if !errors.Is(err, full) || len(m.stored) != writes || len(results) != 2 || results[1].Outcome != Skipped {
			t.Errorf("%d: %d writes, %+v, %v", fails, len(m.stored), results, err)
		}
	}
}
