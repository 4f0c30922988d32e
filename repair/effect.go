package repair

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Write is one write, with everything needed to journal it and to find out afterwards whether
// it was made.
type Write struct {
	Do Operation
	// Finding and Repair are the reason for the write.
	Finding *FindingRef
	Repair  Kind
	// PreImage has the fields that Do writes, as they were before. Inverse takes the write
	// back where nothing has changed since; nil where no single operation does.
	PreImage json.RawMessage
	Inverse  *Operation
	// Check compares the object that the API server returns with the intended one.
	Check func(after json.RawMessage) error
	// Reads are the kinds that Stands and the object's version rest on. Both are asked only
	// about a View that has all of these kinds in full.
	Reads []snapshot.Kind
	// Stands reports whether the objects show the write's effect.
	Stands func(*View) bool
	// Hits names the pods from which the write may take a volume, "" for none; nil for a write
	// that takes no volume. It is called after the write: the pods that it names came after the
	// guards ran.
	Hits func(*View) string
}

// Step is a second write that follows the first once that has taken effect.
type Step struct {
	// Verb is the verb of the second write, which goes to the same object.
	Verb string
	// Reads are the kinds that Ready and Write rest on. Both are asked only about a View that
	// has all of these kinds in full.
	Reads []snapshot.Kind
	// Ready reports whether the first write has done its work.
	Ready func(*View) bool
	// Write works the second write out on fresh objects, or refuses.
	Write func(*View) (*Write, error)
}

// Renew works the repair out on fresh objects. It returns a Refusal where a guard refuses, or
// where the write would no longer go to the object that was proposed.
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

// Write is the repair's first write; the second one, if any, is Next.
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

// Effect is the state of a repair after its write.
type Effect struct {
	// Overwritten reports whether the objects do not show the write, or no longer do.
	Overwritten bool
	// NotNeeded reports that this is no fault, because nobody needs the write any more.
	NotNeeded bool
	// Doubt says why the repair has not yet achieved its purpose; "" where it has.
	Doubt string
}

// Effect looks for the effect of the repair's write. It is asked only about a View that has
// all kinds of Reads in full.
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
