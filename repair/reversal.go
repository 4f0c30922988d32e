package repair

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Written is one write as a journal keeps it.
type Written struct {
	// Server is the API server that the write goes to.
	Server string `json:"server,omitempty"`
	// Finding is the finding that the write fixes.
	Finding *FindingRef `json:"finding,omitempty"`
	Repair  Kind        `json:"repair,omitempty"`
	// Operation is the write.
	Operation *Operation `json:"operation,omitempty"`
	// PreImage has the written fields as they were before, in the form of the object.
	PreImage json.RawMessage `json:"preImage,omitempty"`
	// Inverse takes the write back where nothing has changed since. Undo works
	// it out again from the object as it then is.
	Inverse *Operation `json:"inverse,omitempty"`

	// Ended reports whether the journal has an outcome of the write. Without one the process
	// ended before the outcome was known.
	Ended bool `json:"-"`
}

// FindingRef has the parts of a finding that a journal keeps.
type FindingRef struct {
	Code             finding.Code   `json:"code"`
	Check            string         `json:"check"`
	Fingerprint      string         `json:"fingerprint"`
	Subject          finding.Object `json:"subject"`
	Volume           string         `json:"volume,omitempty"`
	Node             string         `json:"node,omitempty"`
	PersistentVolume string         `json:"persistentVolume,omitempty"`
}

// RefTo is the finding as a journal keeps it.
func RefTo(f finding.Finding) *FindingRef {
	return &FindingRef{
		Code: f.Code, Check: f.Check, Fingerprint: f.Fingerprint, Subject: f.Subject,
		Volume: string(f.Volume), Node: string(f.Node), PersistentVolume: f.PersistentVolume,
	}
}

// Reversal tells how one write of a journal is taken back. Its functions are asked only about
// a View that has all kinds of reads in full.
type Reversal struct {
	// Summary is the write in a few words.
	Summary string
	// Never says why nothing takes the write back; then all other fields are empty.
	Never *Refusal
	// Needs are the rights that the reversal needs.
	Needs []Permission

	written Written
	// guards are the guards that prepare asks. reads are the kinds that they rest on, and the
	// object's own kind.
	guards []Guard
	reads  []snapshot.Kind
	// do and inverse are the operations that this package would have recorded, worked out
	// from the entry's pre-image. An entry that differs is forged.
	do      Operation
	inverse *Operation
	// gone says why there is nothing left to take back; "" where there is.
	gone func(*View) string
	// ours is why the current state is not the written one. It may be nil where gone goes by the
	// mark itself.
	ours func(*View) error
	// prepare works the write out, or refuses with a Refusal. It fills in only the operation,
	// the pre-image and Check, and Stands where that differs from gone.
	prepare func(*View) (*Write, error)
}

// Reverse is how to take the write back. The journal is not trusted: an error means that this
// package could not have written the entry.
func Reverse(w Written) (*Reversal, error) {
	action, known := actionOf(w.Repair)
	switch {
	case !known:
		return nil, fmt.Errorf("it is a %q, which this release cannot take back", w.Repair)
	case action.undo == nil:
		return irreversible(w, "see kubectl volume-doctor explain "+string(w.Repair)), nil
	case !slices.Contains(action.codes, w.Finding.Code):
		return nil, fmt.Errorf("no %s is made for a %q", w.Repair, w.Finding.Code)
	}
	r, err := action.undo(w)
	if err != nil {
		return nil, err
	}
	r.written = w
	if r.Never == nil {
		r.guards = action.undoGuards
		r.reads = union(restOn(r.guards), []snapshot.Kind{snapshot.Kind(Resource(w.Operation.Target.Kind))})
	}
	switch {
	case r.Never != nil:
		return r, nil
	case len(r.reads) == 0:
		return nil, ErrNoReads
	case !w.Operation.asMade(r.do):
		return nil, fmt.Errorf("the operation is not the one that a %s makes of what was there before: the journal was changed", w.Repair)
	case (r.inverse == nil) != (w.Inverse == nil) || r.inverse != nil && !w.Inverse.asMade(*r.inverse):
		return nil, errors.New("the inverse is not that of the operation: the journal was changed")
	}
	if r.Needs == nil {
		r.Needs = rightsTo(w.Operation.Target, action.needs)
	}
	return r, nil
}

// Write works the reversal out on fresh objects. It refuses where a list is missing, where
// nothing is left to take back, or where the object does not bear the mark of the write.
func (r *Reversal) Write(v *View) (*Write, error) {
	if r.Never != nil {
		return nil, r.Never
	}
	if err := Complete(v.Snapshot, r.reads); err != nil {
		return nil, completeGuard(nil).refuse(err)
	}
	if because := r.gone(v); because != "" {
		return nil, &Refusal{Guard: GuardGone, Reason: because}
	}
	if r.ours != nil {
		if err := r.ours(v); err != nil {
			return nil, &Refusal{Guard: GuardOurs, Reason: err.Error()}
		}
	}
	w, err := r.prepare(v)
	if err != nil {
		return nil, err
	}
	w.Finding, w.Repair, w.Reads = r.written.Finding, r.written.Repair, r.reads
	if w.Stands == nil {
		w.Stands = func(v *View) bool { return r.gone(v) != "" }
	}
	return w, nil
}

// irreversible is a Reversal that refuses to take the write back, so that the others of the
// journal can still be taken back.
func irreversible(w Written, because string) *Reversal {
	return &Reversal{
		Summary: fmt.Sprintf("take back the %s of %s %s", w.Operation.Verb, w.Operation.Target.Kind, w.Operation.Target.Name),
		Never:   &Refusal{Guard: "reversible", Reason: fmt.Sprintf("%s cannot be taken back: %s", w.Repair, because)},
	}
}

// ErrNoReads is a programming fault in a kind of repair: it names no list for its conclusion
// to rest on.
var ErrNoReads = errors.New("nothing says which lists the conclusion rests on")

const (
	// GuardGone names the Refusal where there is nothing to take back.
	GuardGone = "entry"
	// GuardOurs names the Refusal where the object does not show that this package wrote its
	// current state.
	GuardOurs = "own-mark"
)

// Moot reports whether nothing is left to do after the refusal.
func (r *Refusal) Moot() bool { return r.Guard == GuardFinding || r.Guard == GuardGone }
