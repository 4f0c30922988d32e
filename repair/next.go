package repair

import (
	"context"
	"errors"
	"time"
)

// stepPatience is how long the first of two writes may take to have its effect:
// an attacher that is at work takes an object up within seconds, and pauses for
// 5 min at most after it has failed with another.
const stepPatience = 6 * time.Minute

// confirm watches a repair until it has held, and makes the second write of one
// that has two.
func (a *Applier) confirm(ctx context.Context, r *Repair) (Outcome, string) {
	if r.next == nil {
		return a.verify(ctx, r)
	}
	// An interruption waits here: it would leave behind what the first write made.
	number, detail := a.follow(context.WithoutCancel(ctx), r)
	if detail != "" {
		return Unverified, detail
	}
	outcome, detail := a.verify(ctx, r)
	if number != 0 {
		if err := a.Journal.ended(number, outcome, detail); err != nil {
			detail = join(detail, err.Error())
		}
	}
	return outcome, detail
}

// follow makes the second write once the first has had its effect, or has had
// all the time for it. It returns the write's number in the journal, 0 where
// there was nothing left to write, or why it was not made.
func (a *Applier) follow(ctx context.Context, r *Repair) (number int, detail string) {
	a.observe(Event{Summary: r.Summary, Stage: Settling})
	var waited time.Duration
	for pause := unknownFirstWait; ; pause = min(2*pause, firstPause) {
		v, err := a.lookOnce(ctx)
		if err == nil && (r.next.ready(v) || waited >= stepPatience) {
			var done bool
			if number, done, err = a.sendNext(ctx, r, v); done {
				return number, ""
			}
		}
		var no *Refusal
		var unwritable *journalError
		if err != nil && (waited >= stepPatience || errors.As(err, &no) || errors.As(err, &unwritable)) {
			return 0, "the second of two writes was not made, so that undo has to take the first one back: " + err.Error()
		}
		if err := a.Wait(ctx, pause); err != nil {
			return 0, err.Error()
		}
		waited += pause
	}
}

func (a *Applier) sendNext(ctx context.Context, r *Repair, v *View) (number int, done bool, err error) {
	w, err := r.next.write(v)
	var no *Refusal
	if errors.As(err, &no) && no.moot() {
		return 0, true, nil
	}
	if err != nil {
		return 0, false, err
	}
	l, err := a.send(ctx, r.Summary, *w)
	return l.number, err == nil && l.landed, err
}
