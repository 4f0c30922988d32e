package repair

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
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
	guardReviewed   = "as-reviewed"
	guardAllowed    = "allowed"
	guardFenced     = "fenced"
)

// consent says that the user's word alone would lift the refusal.
func (r *Refusal) consent() bool { return r.Guard == guardAllowed || r.Guard == guardFenced }

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
	if skipped := v.skipped(proposed.Finding.Code); skipped != nil {
		return fmt.Errorf("check %s could not run without the %s", skipped.Check, skipped.Because)
	}
	return errors.New("it is no longer found")
}}

// skipped is the check of that code if a gap kept it from running.
func (v *View) skipped(code diagnose.Code) *diagnose.SkippedCheck {
	for i, skipped := range v.Report.SkippedChecks {
		if skipped.Code == code {
			return &v.Report.SkippedChecks[i]
		}
	}
	return nil
}

// allowedGuard holds where the user has named the kind of repair. It stands
// last: what else refuses must be known before anybody is asked for consent.
func allowedGuard(kind Kind) Guard {
	return Guard{guardAllowed, func(v *View, _ *Repair) error {
		if slices.Contains(v.Consent.Allow, kind) {
			return nil
		}
		return fmt.Errorf("it is never made unasked: see kubectl volume-doctor explain %s, then give --allow %s", kind, kind)
	}}
}

// fencedGuard holds where the user has said that the finding's node cannot
// write any more, and nothing that is seen contradicts it: a Ready node is
// alive. That it is not Ready proves nothing: a node that is cut off from the
// API server goes on writing.
var fencedGuard = Guard{guardFenced, func(v *View, r *Repair) error {
	node := r.Finding.Node
	if !slices.Contains(v.Consent.Fenced, node) {
		return fmt.Errorf("only you can know that node %s is powered off, or cut off from the storage, and stays so: if you have made sure, give --fenced %s", node, node)
	}
	return nil
}}

// notAliveGuard refuses to treat a node as fenced that is alive.
var notAliveGuard = Guard{"not-alive", func(v *View, r *Repair) error {
	if node := v.Snapshot.Node(r.Finding.Node); node != nil && reconcile.NodeReady(node) {
		return fmt.Errorf("node %s is Ready: its kubelet is alive and may have the volume mounted", node.Name)
	}
	return nil
}}
