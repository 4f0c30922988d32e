package apply

import "github.com/volume-doctor/kubectl-volume-doctor/repair"

// Outcome is the outcome of a repair, or of taking one back.
type Outcome string

// The outcomes.
const (
	// Repaired: written, and the finding was gone for as long as was asked.
	Repaired Outcome = "Repaired"
	// Undone: the write was taken back.
	Undone Outcome = "Undone"
	// DryRun: everything but the write was done.
	DryRun Outcome = "DryRun"
	// Skipped: nothing was written, on purpose.
	Skipped Outcome = "Skipped"
	// Unverified: something was written, or may have been, and the objects do not show the
	// intended state, or no longer show it.
	Unverified Outcome = "Unverified"
	// Failed: nothing was written, because of an error.
	Failed Outcome = "Failed"
	// NotWritten closes a journal's intent: the request was refused.
	NotWritten Outcome = "NotWritten"
)

// Result is the result of one repair, or of one reversal.
type Result struct {
	// Summary is the write in a few words.
	Summary string            `json:"summary"`
	Finding repair.FindingRef `json:"finding"`
	Outcome Outcome           `json:"outcome"`
	// Guard is the name of the guard that refused.
	Guard string `json:"guard,omitempty"`
	// SafeOnce says what would make the refused repair safe.
	SafeOnce string `json:"-"`
	// Detail says why, in a sentence without its full stop.
	Detail string `json:"detail,omitempty"`
	// Operation is the write that was sent or, in a dry run, would be.
	Operation *repair.Operation `json:"operation,omitempty"`
	// Moot reports whether a Skipped repair had nothing left to do.
	Moot bool `json:"moot,omitempty"`
}

// LeftUndone reports whether the requested repair is not done.
func (r Result) LeftUndone() bool {
	switch r.Outcome {
	case Failed, Unverified:
		return true
	case Skipped:
		return !r.Moot
	case Repaired, Undone, DryRun, NotWritten:
		return false
	}
	return true
}

// Stage is how far a repair has come.
type Stage string

// The stages, in their order; a conflict goes back to Looking.
const (
	Looking   Stage = "looking"   // the objects are read again
	Trying    Stage = "dry run"   // the write is tried without being stored
	Writing   Stage = "writing"   // the intent is on disk; the request is sent
	Resolving Stage = "resolving" // no answer came; the object is read
	Verifying Stage = "verifying" // it is written; the cluster is watched
	Done      Stage = "done"      // Event.Result says how it ended

	// Announcing is reported only where the event about the repair could not be written.
	Announcing Stage = "announcing"
)

// Event is one step of a repair, for an observer.
type Event struct {
	Summary string
	Stage   Stage
	// Result is set when the stage is Done.
	Result *Result
	// Err is set when the stage is Announcing.
	Err error
}
