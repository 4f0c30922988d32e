package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// Undo takes back the writes of a journal, newest first, and journals that in turn. It takes each
// write back on its own, on objects just read, and only where the written state still stands:
// whatever the controller has written since stays.
//
// The journal is not trusted. Each entry must be one that this package could have written, on
// this server, and the object itself must bear the mark of the write; see repair.Reversal.
//
// a.MaxRepairs does not limit it, and it does not wait for a.HoldFor: one look shows that an
// entry is gone.
func (a *Applier) Undo(ctx context.Context, entries []Entry) ([]Result, error) {
	pending, err := reversals(entries)
	if err != nil {
		return nil, err
	}
	var needs []repair.Permission
	var tasks []task
	for _, p := range pending {
		needs = append(needs, p.Needs...)
		var made *repair.Write
		tasks = append(tasks, task{
			result: Result{Summary: p.Summary, Finding: *p.Finding},
			undoes: p.number,
			prepare: func(v *repair.View) (*repair.Write, error) {
				undo, err := a.reverse(v, p)
				if err == nil {
					made = undo
				}
				return undo, err
			},
			confirm: func(ctx context.Context) (Outcome, string) { return a.confirmUndone(ctx, made) },
		})
	}
	if err := a.permitted(ctx, needs); err != nil {
		return nil, err
	}
	return a.run(ctx, tasks, len(tasks))
}

// Reversible lists what Undo would take back, newest first, one line each.
func Reversible(entries []Entry) ([]string, error) {
	pending, err := reversals(entries)
	var lines []string
	for _, p := range pending {
		line := p.Summary
		if p.Never != nil {
			line += ": refused, " + p.Never.Reason
		}
		lines = append(lines, line)
	}
	return lines, err
}

// CanUndo reports whether a write of the journal can be taken back.
func CanUndo(entries []Entry) bool {
	pending, err := reversals(entries)
	return err == nil && slices.ContainsFunc(pending, func(p standing) bool { return p.Never == nil })
}

// RefusedNow is why no write of the journal can be taken back on the objects of the view; nil
// where one can, or where none ever could.
func RefusedNow(v *repair.View, entries []Entry) *repair.Refusal {
	pending, err := reversals(entries)
	if err != nil {
		return nil
	}
	var first *repair.Refusal
	for _, p := range pending {
		if p.Never != nil {
			continue
		}
		var no *repair.Refusal
		if _, err := p.Write(v); !errors.As(err, &no) {
			return nil
		}
		first = cmp.Or(first, no)
	}
	return first
}

// ServersOf are the API servers that the writes of a journal went to.
func ServersOf(entries []Entry) []string {
	var servers []string
	for _, w := range standingIn(entries) {
		if !slices.Contains(servers, w.Server) {
			servers = append(servers, w.Server)
		}
	}
	return servers
}

// standing is a write of a journal that may still stand, with the way to take it
// back.
type standing struct {
	number int // of its intent in the journal
	repair.Written
	*repair.Reversal
}

// reversals are the writes of a journal that may still stand, newest first.
func reversals(entries []Entry) ([]standing, error) {
	var pending []standing
	for _, e := range slices.Backward(standingIn(entries)) {
		r, err := repair.Reverse(e.Written)
		if err != nil {
			return nil, fmt.Errorf("write %d of the journal: %w", e.Write, err)
		}
		pending = append(pending, standing{e.Write, e.Written, r})
	}
	return pending, nil
}

// standingIn are the intents of the writes that were or may have been made and that
// no later entry takes back, oldest first.
func standingIn(entries []Entry) []Entry {
	outcomes := map[int]Outcome{}
	undone := map[int]bool{}
	for _, e := range entries {
		if e.Type == Ended {
			outcomes[e.Write] = e.Outcome
		}
	}
	for _, e := range entries {
		if e.Type == Intent && e.Undoes != 0 && outcomes[e.Write] == Undone {
			undone[e.Undoes] = true
		}
	}
	var intents []Entry
	for _, e := range entries {
		if e.Type != Intent || e.Undoes != 0 || undone[e.Write] || outcomes[e.Write] == NotWritten {
			continue
		}
		_, e.Ended = outcomes[e.Write]
		intents = append(intents, e)
	}
	return intents
}

// reverse works the reversal out on fresh objects, or refuses.
func (a *Applier) reverse(v *repair.View, p standing) (*repair.Write, error) {
	if here := v.Snapshot.Source.Server; p.Never == nil && (p.Server == "" || p.Server != here && !a.ServerMoved) {
		return nil, &repair.Refusal{Guard: "same-server", Reason: fmt.Sprintf("it was written to %q, and this is %q", p.Server, here)}
	}
	return p.Write(v)
}

// confirmUndone looks until a look is complete. It need not watch on: only the controller writes
// the restored state, and it writes what it knows.
func (a *Applier) confirmUndone(ctx context.Context, w *repair.Write) (Outcome, string) {
	var waited time.Duration
	for pause := unknownFirstWait; ; pause *= 2 {
		v, err := a.seeOnce(ctx, w.Reads)
		switch {
		case err == nil && w.Stands(v):
			return Undone, ""
		case err == nil:
			return Unverified, "it is there again"
		case waited >= unknownPatience:
			return Unverified, err.Error()
		}
		pause = min(pause, unknownPatience-waited)
		if a.Wait(ctx, pause) != nil {
			return Unverified, err.Error()
		}
		waited += pause
	}
}
