package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

const (
	// requestTime bounds one request that must not be cut short.
	requestTime = facts.RequestTimeout
	// unknownPatience is how long a write whose answer was lost may still be made: as long as
	// the API server may work on it.
	unknownPatience = facts.RequestTimeout
	// unknownFirstWait is the pause between the first two looks for such a write; each
	// further pause is twice as long. A judgement.
	unknownFirstWait = time.Second
)

// landing is the state of knowledge about a write that has been sent.
type landing struct {
	number int // of its intent in the journal
	landed bool
	// unknown reports whether it is uncertain that the write was made.
	unknown bool
	detail  string
	// hit names the pod that may have lost its volume; "" where there is none.
	hit string
	// uid is the UID of the written object; "" where no answer had it.
	uid types.UID
}

// send takes a write through its steps, in this order: a dry run, the intent on disk, the
// request, and, without an answer, a look. v is the view on which the write was worked out, again
// works it out once more, and undoes is the number of the write that it takes back. An error that
// wraps ErrConflict or ErrNotFound asks for another look; a *journalError ends the run.
func (a *Applier) send(ctx context.Context, summary string, v *repair.View, w *repair.Write, again prepare, undoes int) (landing, error) {
	if !w.Do.Conditional() {
		return landing{}, errors.New("the operation has no preconditions")
	}
	a.observe(Event{Summary: summary, Stage: Trying})
	after, err := a.Cluster.Do(ctx, w.Do, true)
	if err != nil {
		return landing{}, fmt.Errorf("dry run: %w", err)
	}
	if err := w.Check(after); err != nil {
		return landing{}, fmt.Errorf("dry run: %w", err)
	}
	if a.DryRun == DryRunServer {
		return landing{}, nil
	}
	if err := ctx.Err(); err != nil {
		return landing{}, err
	}
	intent := Entry{Undoes: undoes, Written: repair.Written{
		Server: v.Snapshot.Source.Server, Finding: w.Finding, Repair: w.Repair,
		Operation: &w.Do, PreImage: w.PreImage, Inverse: w.Inverse,
	}}
	number, err := a.Journal.intent(intent)
	if err != nil {
		return landing{}, &journalError{err}
	}
	a.observe(Event{Summary: summary, Stage: Writing})
	// From here on an interruption waits: nobody would know the outcome of a request that is
	// cut short.
	request, cancel := context.WithTimeout(context.WithoutCancel(ctx), requestTime)
	defer cancel()
	if err := a.stillSafe(request, v, w, again); err != nil {
		if noted := a.Journal.ended(number, NotWritten, err.Error()); noted != nil {
			return landing{}, &journalError{noted}
		}
		return landing{}, err
	}
	after, err = a.Cluster.Do(request, w.Do, false)
	switch {
	case err == nil:
		return landing{number: number, landed: true, uid: uidOf(after), hit: a.hit(request, v, w)}, nil
	case errors.Is(err, repair.ErrUnknownOutcome):
		a.observe(Event{Summary: summary, Stage: Resolving})
		l := a.resolve(ctx, w)
		l.number = number
		if l.landed || l.unknown {
			l.hit = a.hit(request, v, w)
			return l, nil
		}
		err = fmt.Errorf("%w: %w", repair.ErrConflict, err)
	}
	if noted := a.Journal.ended(number, NotWritten, err.Error()); noted != nil {
		return landing{}, &journalError{noted}
	}
	return landing{}, err
}

// uidOf is the UID in the answer; "" where the answer is no object.
func uidOf(object json.RawMessage) types.UID {
	var after metav1.PartialObjectMetadata
	if err := json.Unmarshal(object, &after); err != nil {
		return ""
	}
	return after.UID
}

// resolve finds out whether a write without an answer was made. The object shows the write's
// effect, or a resourceVersion other than the required one: then the write can no longer be made.
// Until it shows one of them the request may still be under way.
func (a *Applier) resolve(ctx context.Context, w *repair.Write) landing {
	var waited time.Duration
	reason := "the object has not changed since, but the request may still be under way"
	for pause := unknownFirstWait; ; pause *= 2 {
		v, err := a.seeOnce(ctx, w.Reads)
		switch {
		case err != nil:
			reason = err.Error()
		case w.Stands(v):
			return landing{landed: true, detail: "the answer was lost, but the object shows the write"}
		case versionOf(v, w.Do.Target) != w.Do.Target.ResourceVersion:
			return landing{}
		}
		if waited >= unknownPatience {
			break
		}
		pause = min(pause, unknownPatience-waited)
		if err := a.Wait(ctx, pause); err != nil {
			reason = err.Error()
			break
		}
		waited += pause
	}
	return landing{unknown: true, detail: repair.ErrUnknownOutcome.Error() + ": " + reason}
}

// versionOf is the resourceVersion of the object, "" where it is gone.
func versionOf(v *repair.View, target corev1.ObjectReference) string {
	if o := v.Stored(target); o != nil {
		return o.GetResourceVersion()
	}
	return ""
}

// journalError reports that the journal cannot be kept: no further write may be made.
type journalError struct{ err error }

func (e *journalError) Error() string { return e.err.Error() }
func (e *journalError) Unwrap() error { return e.err }
