package repair

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Write is one write, with all that it takes to journal it and to tell afterwards
// whether it was made.
type Write struct {
	Do Operation
	// Finding and Repair say what it is for.
	Finding *FindingRef
	Repair  Kind
	// PreImage are the fields that Do writes as they were, and Inverse takes it back
	// where nothing has changed since; nil where it does not simply do so.
	PreImage json.RawMessage
	Inverse  *Operation
	// Check holds the object that the API server returns against what was meant.
	Check func(after json.RawMessage) error
	// Reads are the kinds that Stands and the object's version rest on. Both are asked
	// only of a look that has all of them in full.
	Reads []snapshot.Kind
	// Stands says whether the write's effect is in the objects.
	Stands func(*View) bool
	// Hits names the pods from which the write may take a volume, "" where there are none;
	// nil for a write that takes none. It is asked after the write: a pod that is there now
	// came after the guards were asked.
	Hits func(*View) string
}

// Step is a write that follows another once that has taken effect.
type Step struct {
	// Verb is the verb of Write, which is made to the same object.
	Verb string
	// Reads are the kinds that Ready and Write rest on. Both are asked only of a
	// look that has all of them in full.
	Reads []snapshot.Kind
	// Ready says whether the first write has done its work.
	Ready func(*View) bool
	// Write works the second one out on fresh objects, or refuses.
	Write func(*View) (*Write, error)
}

// Renew works the repair out on fresh objects. It refuses with a Refusal where a
// guard does, or where the write would no longer be to what was proposed.
func (r *Repair) Renew(v *View) (*Repair, error) {
	action, known := actionOf(r.Kind)
	if r.stands == nil || !known {
		return nil, errors.New("the repair was read from a file; only one that was just proposed can be made")
	}
	if no := refusal(v, r); no != nil {
		return nil, no
	}
	fresh, err := action.repair(v, r.Finding)
	if err != nil {
		return nil, err
	}
	if other := fresh.aimsElsewhere(r); other != "" {
		return nil, &Refusal{Guard: GuardReviewed, Reason: fmt.Sprintf("it would now be to %s, with another %s than was reviewed", fresh.Summary, other)}
	}
	return &fresh, nil
}

// Write is the repair's write, the first one where it has two.
func (r *Repair) Write() *Write {
	w := &Write{
		Do: r.Do, Finding: RefTo(r.Finding), Repair: r.Kind, PreImage: r.PreImage, Inverse: r.Undo,
		Check: r.check, Reads: r.reads, Stands: r.stands, Hits: r.hits,
	}
	if r.landed != nil {
		w.Stands = r.landed
	}
	return w
}

// Reads are the kinds that Effect rests on.
func (r *Repair) Reads() []snapshot.Kind { return r.reads }

// Effect is how a repair stands once it was written.
type Effect struct {
	// Overwritten says that the objects do not show the write, or no longer.
	Overwritten bool
	// NotNeeded says that they may well not, because nobody needs it any more.
	NotNeeded bool
	// Doubt says why the repair has not yet done what it was for; "" where it has.
	Doubt string
}

// Effect looks for the effect of the repair's write. It is asked only of a look
// that has all kinds of Reads in full.
func (r *Repair) Effect(v *View) Effect {
	switch {
	case r.stands(v):
		return Effect{Doubt: r.doubt(v)}
	case r.moot != nil && r.moot(v):
		return Effect{NotNeeded: true}
	}
	return Effect{Overwritten: true}
}

func (r *Repair) doubt(v *View) string {
	if r.pending != nil {
		if text := r.pending(v); text != "" {
			return text
		}
	}
	if v.Finds(r.Finding.Fingerprint) {
		return "the finding is still there"
	}
	if err := v.CannotTell(r.Finding.Code); err != nil {
		return err.Error()
	}
	return ""
}
