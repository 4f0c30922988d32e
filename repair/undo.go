package repair

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Undo takes back what a journal says was written, newest first, and journals
// that in turn. Each write is taken back on its own, on objects just read, and
// only where it still is what was written: whatever the controller has written
// since is the controller's.
//
// The journal is not believed. Each entry must be one that this package could
// have written, on this server, and the object itself must bear the mark of the
// write; see reversal.
//
// a.MaxRepairs does not bound it, and a.Settle does not matter: that an entry is
// gone is seen at once.
func (a *Applier) Undo(ctx context.Context, entries []Entry) ([]Result, error) {
	pending, err := reversals(entries)
	if err != nil {
		return nil, err
	}
	var needs []Permission
	var tasks []task
	for _, p := range pending {
		needs = append(needs, p.needs...)
		var made *write
		tasks = append(tasks, task{
			result: Result{Summary: p.summary, Finding: *p.intent.Finding},
			prepare: func(v *View) (*write, error) {
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

// Reversible says what Undo would take back, newest first, one line each.
func Reversible(entries []Entry) ([]string, error) {
	pending, err := reversals(entries)
	var lines []string
	for _, p := range pending {
		line := p.summary
		if p.never != nil {
			line += ": refused, " + p.never.Reason
		}
		lines = append(lines, line)
	}
	return lines, err
}

// ServersOf are the API servers that the writes of a journal went to.
func ServersOf(entries []Entry) []string {
	var servers []string
	for _, w := range standing(entries) {
		if !slices.Contains(servers, w.intent.Server) {
			servers = append(servers, w.intent.Server)
		}
	}
	return servers
}

// reversal is how one write of a journal is taken back. Everything that it asks
// it asks of a look that has all kinds in reads in full.
type reversal struct {
	summary string
	// never says why nothing takes the write back; then all else is empty.
	never *Refusal
	needs []Permission
	reads []snapshot.Kind
	// do and inverse are what this package would have written down, worked out from
	// what the entry says was there before. An entry that differs is forged.
	do      Operation
	inverse *Operation
	// gone says why there is nothing left to take back; "" where there is.
	gone func(*View) string
	// ours says why what is there is not what was written. It may be nil where gone
	// goes by the mark itself.
	ours func(*View) error
	// prepare works the write out, or refuses with a Refusal. Only the operation,
	// the pre-image and check are its to fill in, and stands where that is not what
	// gone says.
	prepare func(*View) (*write, error)
}

// pendingReversal is a write of a journal with the way to take it back.
type pendingReversal struct {
	written
	*reversal
}

// reversals are the writes of a journal that may stand, newest first.
func reversals(entries []Entry) ([]pendingReversal, error) {
	var pending []pendingReversal
	for _, w := range slices.Backward(standing(entries)) {
		r, err := w.reversal()
		if err != nil {
			return nil, fmt.Errorf("write %d of the journal: %w", w.intent.Write, err)
		}
		pending = append(pending, pendingReversal{w, r})
	}
	return pending, nil
}

func (w written) reversal() (*reversal, error) {
	action, known := actionOf(w.intent.Repair)
	switch {
	case !known:
		return nil, fmt.Errorf("it is a %q, which this release cannot take back", w.intent.Repair)
	case action.undo == nil:
		return irreversible(w, "see kubectl volume-doctor explain "+string(w.intent.Repair)), nil
	case !slices.Contains(action.codes, w.intent.Finding.Code):
		return nil, fmt.Errorf("no %s is made for a %q", w.intent.Repair, w.intent.Finding.Code)
	}
	r, err := action.undo(w)
	if err != nil {
		return nil, err
	}
	switch {
	case r.never != nil:
		return r, nil
	case len(r.reads) == 0:
		return nil, errNoReads
	}
	if !w.intent.Operation.asMade(r.do) {
		return nil, fmt.Errorf("the operation is not the one that a %s makes of what was there before: the journal was changed", w.intent.Repair)
	}
	if (r.inverse == nil) != (w.intent.Inverse == nil) || r.inverse != nil && !w.intent.Inverse.asMade(*r.inverse) {
		return nil, errors.New("the inverse is not that of the operation: the journal was changed")
	}
	return r, nil
}

// reverse works the reversal out on fresh objects, or refuses.
func (a *Applier) reverse(v *View, p pendingReversal) (*write, error) {
	if p.never != nil {
		return nil, p.never
	}
	if here := v.Snapshot.Source.Server; p.intent.Server == "" || p.intent.Server != here && !a.ServerMoved {
		return nil, &Refusal{"same-server", fmt.Sprintf("it was written to %q, and this is %q", p.intent.Server, here)}
	}
	if err := complete(v.Snapshot, p.reads); err != nil {
		return nil, &Refusal{guardComplete, err.Error()}
	}
	if because := p.gone(v); because != "" {
		return nil, &Refusal{guardGone, because}
	}
	if p.ours != nil {
		if err := p.ours(v); err != nil {
			return nil, &Refusal{guardOurs, err.Error()}
		}
	}
	w, err := p.prepare(v)
	if err != nil {
		return nil, err
	}
	w.reads = p.reads
	if w.stands == nil {
		w.stands = func(v *View) bool { return p.gone(v) != "" }
	}
	w.intent = Entry{
		Server: v.Snapshot.Source.Server, Finding: p.intent.Finding, Repair: p.intent.Repair,
		Operation: &w.op, PreImage: w.intent.PreImage, Undoes: p.intent.Write,
	}
	return w, nil
}

// irreversible refuses to take a write back, and leaves the others of the
// journal to be.
func irreversible(w written, because string) *reversal {
	op := w.intent.Operation
	return &reversal{
		summary: fmt.Sprintf("take back the %s of %s %s", op.Verb, op.Target.Kind, op.Target.Name),
		never:   &Refusal{"reversible", fmt.Sprintf("%s cannot be taken back: %s", w.intent.Repair, because)},
	}
}

// written is one write of a journal that may still stand.
type written struct {
	intent Entry
	// ended is its outcome; nil where the process ended before it was known.
	ended *Entry
}

// standing are the writes that were or may have been made and that no later
// entry takes back, oldest first.
func standing(entries []Entry) []written {
	outcomes := map[int]*Entry{}
	undone := map[int]bool{}
	for i, e := range entries {
		if e.Type == Ended {
			outcomes[e.Write] = &entries[i]
		}
	}
	for _, e := range entries {
		if end := outcomes[e.Write]; e.Type == Intent && e.Undoes != 0 && end != nil && end.Outcome == Undone {
			undone[e.Undoes] = true
		}
	}
	var writes []written
	for _, e := range entries {
		end := outcomes[e.Write]
		if e.Type != Intent || e.Undoes != 0 || undone[e.Write] || (end != nil && end.Outcome == NotWritten) {
			continue
		}
		writes = append(writes, written{e, end})
	}
	return writes
}

// confirmUndone looks until a look is complete: nobody but the controller writes
// what is taken back, and it writes what it knows.
func (a *Applier) confirmUndone(ctx context.Context, w *write) (Outcome, string) {
	var waited time.Duration
	for pause := unknownFirstWait; ; pause *= 2 {
		v, err := a.seeOnce(ctx, w.reads)
		switch {
		case err == nil && w.stands(v):
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

// moot says that a refusal leaves nothing undone.
func (r *Refusal) moot() bool { return r.Guard == guardFinding || r.Guard == guardGone }

const (
	// guardGone is refused where there is nothing to take back.
	guardGone = "entry"
	// guardOurs is refused where the object does not show that this package wrote
	// what is there.
	guardOurs = "own-mark"
)
