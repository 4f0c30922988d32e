package repair

import (
	"context"
	"fmt"
	"slices"
)

// Undo takes back what a journal says was written, newest first, and journals
// that in turn. Each write is taken back on its own, on objects just read, and
// only where it still is what was written: whatever the controller has written
// since is the controller's.
//
// a.MaxRepairs does not bound it, and a.Settle does not matter: that an entry is
// gone is seen at once.
func (a *Applier) Undo(ctx context.Context, entries []Entry) ([]Result, error) {
	var needs []Permission
	var tasks []task
	for _, w := range slices.Backward(standing(entries)) {
		r, err := w.reversal()
		if err != nil {
			return nil, fmt.Errorf("write %d of the journal: %w", w.intent.Write, err)
		}
		needs = append(needs, r.needs...)
		tasks = append(tasks, task{
			result: Result{Summary: r.summary, Finding: *w.intent.Finding},
			prepare: func(v *View) (*write, error) {
				undo, err := r.prepare(v)
				if err != nil {
					return nil, err
				}
				undo.intent = Entry{
					Server: v.Snapshot.Source.Server, Finding: w.intent.Finding, Repair: w.intent.Repair,
					Operation: &undo.op, PreImage: undo.intent.PreImage, Undoes: w.intent.Write,
				}
				undo.stands = r.undone
				return undo, nil
			},
			confirm: func(ctx context.Context) (Outcome, string) { return a.confirmUndone(ctx, r) },
		})
	}
	if err := a.permitted(ctx, needs); err != nil {
		return nil, err
	}
	return a.run(ctx, tasks, len(tasks))
}

// reversal is how one write of a journal is taken back.
type reversal struct {
	summary string
	needs   []Permission
	// prepare works the write out on fresh objects, or refuses with a Refusal.
	// Only the operation, the pre-image, check and version are its to fill in.
	prepare func(*View) (*write, error)
	// undone says whether the effect of the write that is taken back is gone.
	undone func(*View) bool
}

func (w written) reversal() (*reversal, error) {
	rung, known := rungOf(w.intent.Repair)
	switch {
	case !known:
		return nil, fmt.Errorf("it is a %q, which this release cannot take back", w.intent.Repair)
	case rung.undo == nil:
		return irreversible(w, "see kubectl volume-doctor explain "+string(w.intent.Repair)), nil
	}
	return rung.undo(w)
}

// irreversible refuses to take a write back, and leaves the others of the
// journal to be.
func irreversible(w written, because string) *reversal {
	op := w.intent.Operation
	return &reversal{
		summary: fmt.Sprintf("take back the %s of %s %s", op.Verb, op.Target.Kind, op.Target.Name),
		undone:  func(*View) bool { return false },
		prepare: func(*View) (*write, error) {
			return nil, &Refusal{"reversible", fmt.Sprintf("%s cannot be taken back: %s", w.intent.Repair, because)}
		},
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

// confirmUndone looks once: nobody but the controller writes what is taken
// back, and it writes what it knows.
func (a *Applier) confirmUndone(ctx context.Context, r *reversal) (Outcome, string) {
	v, err := a.lookOnce(ctx)
	switch {
	case err != nil:
		return Unverified, err.Error()
	case !r.undone(v):
		return Unverified, "it is there again"
	}
	return Undone, ""
}

// moot says that a refusal leaves nothing undone.
func (r *Refusal) moot() bool { return r.Guard == guardFinding || r.Guard == guardGone }

// guardGone is refused where there is nothing to take back.
const guardGone = "entry"
