package apply

import (
	"context"
	"errors"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// stepPatience is how long the first of two writes may take to have its effect: an attacher at
// work turns to an object within seconds, or after its longest pause where it has failed with
// another one.
const stepPatience = facts.AttacherMaxBackoff + time.Minute

// confirm watches a repair until it has held. Where a repair has two writes, it makes the
// second one first.
func (a *Applier) confirm(ctx context.Context, r *repair.Repair) (Outcome, string) {
	if r.Next == nil {
		return a.verify(ctx, r)
	}
	// An interruption waits here: it would leave behind the object that the first write made.
	number, hit, detail := a.follow(context.WithoutCancel(ctx), r)
	if detail != "" {
		return Unverified, detail
	}
	outcome, detail := a.verify(ctx, r)
	if hit != "" {
		outcome, detail = Unverified, join(hit, detail)
	}
	if number != 0 {
		detail = a.ended(number, outcome, detail)
	}
	return outcome, detail
}

// follow makes the second write once the first has had its effect, or has had all the time
// for it. It returns the write's number in the journal, 0 where nothing was left to write.
// hit names the pod that it may have hit, and detail says why the write was not made.
func (a *Applier) follow(ctx context.Context, r *repair.Repair) (number int, hit, detail string) {
	a.observe(Event{Summary: r.Summary, Stage: Verifying})
	var waited time.Duration
	for pause := unknownFirstWait; ; pause = min(2*pause, firstPause) {
		v, err := a.seeOnce(ctx, r.Next.Reads)
		if err == nil && (r.Next.Ready(v) || waited >= stepPatience) {
			var l landing
			l, err = a.sendNext(ctx, r, v)
			switch {
			case err == nil && l.unknown:
				// A second request must not follow this one: both might be carried out.
				return 0, "", join(l.hit, "nobody knows whether the second of two writes was made: "+a.ended(l.number, Unverified, l.detail))
			case err == nil:
				return l.number, l.hit, ""
			}
		}
		var no *repair.Refusal
		var unwritable *journalError
		if err != nil && (waited >= stepPatience || errors.As(err, &no) || errors.As(err, &unwritable)) {
			return 0, "", "the second of two writes was not made, so that undo has to take the first one back: " + err.Error()
		}
		if err := a.Wait(ctx, pause); err != nil {
			return 0, "", err.Error()
		}
		waited += pause
	}
}

// sendNext makes the second write. Without an error the write was made or may have been made,
// or nothing was left to write: then the landing has no number.
func (a *Applier) sendNext(ctx context.Context, r *repair.Repair, v *repair.View) (landing, error) {
	w, err := r.Next.Write(v)
	var no *repair.Refusal
	if errors.As(err, &no) && no.Moot() {
		return landing{}, nil
	}
	if err != nil {
		return landing{}, err
	}
	w.Reads = r.Next.Reads
	return a.send(ctx, r.Summary, v, w, r.Next.Write, 0)
}

// ended journals the outcome of the second write. It returns the detail, with the reason
// where the outcome could not be journaled.
func (a *Applier) ended(number int, outcome Outcome, detail string) string {
	if err := a.Journal.ended(number, outcome, detail); err != nil {
		return join(detail, err.Error())
	}
	return detail
}
