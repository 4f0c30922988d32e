package repair

import (
	"errors"
	"fmt"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Guard is one named condition for a repair. Check gets the objects as they are
// and the repair as it was proposed, perhaps on older ones; its error says why
// the repair must not be made.
type Guard struct {
	Name  string
	Check func(v *View, proposed *Repair) error
}

// Refusal is a guard's no.
type Refusal struct {
	Guard  string `json:"guard"`
	Reason string `json:"reason"`
}

// Error is the guard's name and its reason.
func (r *Refusal) Error() string { return r.Guard + ": " + r.Reason }

// The guards that hold for every repair.
const (
	guardComplete   = "complete"
	guardController = "controller-settled"
	guardFinding    = "finding"
)

// refusal is that of the first guard that does not hold. Where the finding is
// gone, the next guard that does not hold either says what has become of it.
func refusal(v *View, proposed *Repair) *Refusal {
	var gone *Refusal
	for _, guard := range proposed.Guards {
		err := guard.Check(v, proposed)
		switch {
		case err == nil:
		case gone != nil:
			gone.Reason += ": " + err.Error()
			return gone
		case guard.Name == guardFinding:
			gone = &Refusal{guard.Name, err.Error()}
		default:
			return &Refusal{guard.Name, err.Error()}
		}
	}
	return gone
}

// completeGuard holds where the kinds were read in full: what is absent from a
// partial list may be there all the same.
func completeGuard(kinds []snapshot.Kind) Guard {
	return Guard{guardComplete, func(v *View, _ *Repair) error { return complete(v.Snapshot, kinds) }}
}

func complete(s *snapshot.Snapshot, kinds []snapshot.Kind) error {
	for _, kind := range kinds {
		for _, gap := range s.Gaps {
			if gap.Kind != kind {
				continue
			}
			if gap.Namespace != "" {
				return fmt.Errorf("of the %s only those of namespace %s were read (%s)", kind, gap.Namespace, gap.Reason)
			}
			return fmt.Errorf("the %s were not all read (%s)", kind, gap.Reason)
		}
	}
	return nil
}

// settledGuard holds where kube-controller-manager's leader is not new. Hosted
// control planes show no lease; there the other guards must do.
var settledGuard = Guard{guardController, func(v *View, _ *Repair) error {
	lease := v.Snapshot.Lease("kube-system", "kube-controller-manager")
	if lease == nil || lease.Spec.AcquireTime == nil {
		return nil
	}
	if age := v.Snapshot.TakenAt.Sub(lease.Spec.AcquireTime.Time); age < diagnose.ControllerSettles {
		return fmt.Errorf("kube-controller-manager has a new leader since %v ago and may still be at work; wait until it has led for %v",
			age.Round(time.Second), diagnose.ControllerSettles)
	}
	return nil
}}

// findingGuard holds while the same finding is found.
var findingGuard = Guard{guardFinding, func(v *View, proposed *Repair) error {
	if v.finds(proposed.Finding.Fingerprint) {
		return nil
	}
	for _, skipped := range v.Report.SkippedChecks {
		if skipped.Code == proposed.Finding.Code {
			return fmt.Errorf("check %s could not run without the %s", skipped.Check, skipped.Because)
		}
	}
	return errors.New("it is no longer found")
}}
