package apply

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// announceTime bounds the wait for an event to be written. A judgement: the event
// is a courtesy.
const announceTime = 10 * time.Second

// prepare works a write out on fresh objects, or refuses with a Refusal.
type prepare func(*repair.View) (*repair.Write, error)

// task is one repair, or one reversal.
type task struct {
	// result is filled in as the task goes on.
	result  Result
	prepare prepare
	// confirm reports whether the written state is there, and stays.
	confirm func(context.Context) (Outcome, string)
	// undoes is the number of the write that this one takes back, 0 for a repair.
	undoes int
}

// run carries the tasks out in their order and begins at most limit writes.
func (a *Applier) run(ctx context.Context, tasks []task, limit int) ([]Result, error) {
	results := make([]Result, 0, len(tasks))
	var stopped string // why no further task is begun
	var fatal error
	for _, t := range tasks {
		if stopped == "" && ctx.Err() != nil {
			stopped, fatal = "not begun: interrupted", context.Cause(ctx)
		}
		if stopped == "" && limit == 0 {
			stopped = fmt.Sprintf("not begun: this run may make %d repairs", a.MaxRepairs)
		}
		if stopped != "" {
			t.result.Outcome, t.result.Detail = Skipped, stopped
		} else {
			err := a.carryOut(ctx, &t)
			switch {
			case err != nil:
				stopped, fatal = "not begun: "+err.Error(), err
			case t.result.Outcome == Failed && !a.KeepGoing:
				stopped = "not begun: an earlier one failed"
			}
			if t.result.Outcome != Skipped {
				limit--
			}
		}
		results = append(results, t.result)
		a.observe(Event{Summary: t.result.Summary, Stage: Done, Result: &results[len(results)-1]})
	}
	return results, fatal
}

// carryOut carries one task out and fills in its result. Its error ends the run.
func (a *Applier) carryOut(ctx context.Context, t *task) error {
	res := &t.result
	for again := false; ; again = true {
		a.observe(Event{Summary: res.Summary, Stage: Looking})
		l, err := a.attempt(ctx, t)
		var unwritable *journalError
		var no *repair.Refusal
		switch {
		case errors.As(err, &unwritable):
			res.Outcome, res.Detail = Failed, err.Error()
			return err
		case errors.As(err, &no):
			res.Outcome, res.Guard, res.Detail, res.SafeOnce, res.Moot = Skipped, no.Guard, no.Reason, no.Safe(), no.Moot()
			return nil
		case err != nil && ctx.Err() != nil:
			res.Outcome, res.Detail = Skipped, "interrupted before anything was written"
			return nil
		case !again && (errors.Is(err, repair.ErrConflict) || errors.Is(err, repair.ErrNotFound)):
			continue // fresh objects may fix it
		case err != nil:
			res.Outcome, res.Detail = Failed, err.Error()
			return nil
		case a.DryRun != DryRunNone:
			res.Outcome = DryRun
			return nil
		}
		res.Detail = l.detail
		if l.unknown {
			res.Outcome = Unverified
		} else {
			a.observe(Event{Summary: res.Summary, Stage: Verifying})
			var detail string
			res.Outcome, detail = t.confirm(ctx)
			res.Detail = join(l.detail, detail)
		}
		if l.hit != "" {
			res.Outcome, res.Detail = Unverified, join(l.hit, res.Detail)
		}
		if err := a.Journal.ended(l.number, res.Outcome, res.Detail); err != nil {
			res.Detail = join(res.Detail, err.Error())
			return err
		}
		a.announce(ctx, res, l.uid)
		return nil
	}
}

// announce writes an event for those who look at the object later. kubectl describe finds
// events by the UID, which an object that was created has only since. A failure to write the
// event changes nothing about the repair, so it is only reported.
func (a *Applier) announce(ctx context.Context, res *Result, uid types.UID) {
	about := res.Operation.Target
	about.UID = cmp.Or(about.UID, uid)
	note := Note{Reason: "VolumeDoctor" + string(res.Outcome), Message: fmt.Sprintf("%s, for %s %s", res.Summary, res.Finding.Code, res.Finding.Check)}
	if res.Detail != "" {
		note.Message += ": " + res.Detail
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), announceTime)
	defer cancel()
	if err := a.Cluster.Announce(ctx, about, note); err != nil {
		a.observe(Event{Summary: res.Summary, Stage: Announcing, Err: err})
	}
}

// attempt looks, works the write out and sends it.
func (a *Applier) attempt(ctx context.Context, t *task) (landing, error) {
	v, err := a.look(ctx)
	if err != nil {
		return landing{}, fmt.Errorf("look at the cluster: %w", err)
	}
	w, err := t.prepare(v)
	if err != nil {
		return landing{}, err
	}
	t.result.Operation = &w.Do
	if a.DryRun == DryRunClient {
		return landing{}, nil
	}
	return a.send(ctx, t.result.Summary, v, w, t.prepare, t.undoes)
}

// look reads the objects as they are now. Some lists may be incomplete, so look serves only
// the time before the first write, where guards ask for the lists that they need. After a
// write everything goes through see.
func (a *Applier) look(ctx context.Context) (*repair.View, error) {
	s, err := a.Cluster.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	return repair.Look(s, a.Options, a.Consent), nil
}

// see looks at the cluster and fails unless every kind in reads was read in full: an object
// that is missing from an incomplete list may exist all the same. It also fails where reads
// is empty.
func (a *Applier) see(ctx context.Context, reads []snapshot.Kind) (*repair.View, error) {
	if len(reads) == 0 {
		return nil, repair.ErrNoReads
	}
	v, err := a.look(ctx)
	if err == nil {
		err = repair.Complete(v.Snapshot, reads)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

// seeOnce is see for the case that an interruption is pending: it still reads.
func (a *Applier) seeOnce(ctx context.Context, reads []snapshot.Kind) (*repair.View, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
	defer cancel()
	return a.see(ctx, reads)
}

func (a *Applier) observe(e Event) {
	if a.Observe != nil {
		a.Observe(e)
	}
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}
