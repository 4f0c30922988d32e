package repair

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Guard is one named condition for a repair. Check gets the present objects and the proposed
// repair, which may be from older ones; its error is why the repair must not be made. A Refusal
// is returned unchanged.
type Guard struct {
	Name string
	// Kinds are the kinds that Check rests on. The repair is refused where one was not read in
	// full, as the answer could be another.
	Kinds []snapshot.Kind
	Check func(v *View, proposed *Repair) error
	// SafeOnce says what would make a refused repair safe: something that a person does, or
	// waits for. It is "" where the reason says so already, or where nothing would.
	SafeOnce string
}

// Refusal is the answer of a guard that does not hold.
type Refusal struct {
	Guard  string `json:"guard"`
	Reason string `json:"reason"`
	// SafeOnce is the SafeOnce of the guard, unless the guard's error has its own.
	SafeOnce string `json:"-"`
}

// Safe is SafeOnce in plain words, for places that have no finding whose objects it could name.
func (r *Refusal) Safe() string { return step.WithoutMarks(r.SafeOnce) }

// refuse is the guard's Refusal for that reason. An error that is itself a Refusal brings its
// own SafeOnce.
func (g Guard) refuse(err error) *Refusal {
	var no *Refusal
	if errors.As(err, &no) {
		return no
	}
	return &Refusal{g.Name, err.Error(), g.SafeOnce}
}

// Error is the guard's name and its reason.
func (r *Refusal) Error() string { return r.Guard + ": " + r.Reason }

// The guards that hold for every repair.
const (
	GuardComplete   = "complete"
	GuardController = "controller-settled"
	GuardFinding    = "finding"
	guardCertain    = "certain"
	GuardReviewed   = "as-reviewed"
	GuardAllowed    = "allowed"
	GuardFenced     = "fenced"
	GuardDetached   = "detached"

	notAlive           = "not-alive"
	guardDriverIsAsked = "driver-is-asked"
	guardStorageLetGo  = "storage-let-go"
)

// consents reports whether only the user's consent satisfies the guard.
func consents(guard string) bool {
	return guard == GuardAllowed || guard == GuardFenced || guard == GuardDetached
}

// consent reports whether the user's consent alone would lift the refusal.
func (r *Refusal) consent() bool { return consents(r.Guard) }

// refusal returns the Refusal of the first guard that does not hold. If that is the guard of the
// finding, the reason of the next one that does not hold is added: it shows what happened to the
// finding.
func refusal(v *View, proposed *Repair) *Refusal {
	var gone *Refusal
	for _, guard := range proposed.Guards {
		err := guard.Check(v, proposed)
		var no *Refusal
		switch {
		case err == nil:
		case errors.As(err, &no) && no.Guard != guard.Name: // it refuses in the name of another guard
			return no
		case gone != nil:
			gone.Reason += ": " + guard.refuse(err).Reason
			return gone
		case guard.Name == GuardFinding:
			gone = guard.refuse(err)
		default:
			return guard.refuse(err)
		}
	}
	return gone
}

// completeGuard holds where the kinds were read in full: an object that is missing from a
// partial list may exist all the same.
func completeGuard(kinds []snapshot.Kind) Guard {
	return Guard{GuardComplete, kinds, func(v *View, _ *Repair) error { return Complete(v.Snapshot, kinds) },
		"{change} give the rights to read everything (kubectl volume-doctor auth)"}
}

// Complete returns an error that names a kind whose objects were not all read; nil if there is
// no such kind.
func Complete(s *snapshot.Snapshot, kinds []snapshot.Kind) error {
	for _, kind := range kinds {
		for _, gap := range s.Gaps {
			if gap.Kind != kind {
				continue
			}
			if gap.Namespace != "" {
				return fmt.Errorf("of the %s only those of namespace %s were read (%s)", kind, strings.Join(gap.Namespaces(), ", "), gap.Reason)
			}
			return fmt.Errorf("the %s were not all read (%s)", kind, gap.Reason)
		}
	}
	return nil
}

// controllerGuard holds where kube-controller-manager has a leader that is not new. A leader
// that comes back decides by the objects that it finds, and may do so at any moment. Hosted
// control planes show no lease; there the other guards must do. That there is no lease is
// known only from a list that was read: leases that nobody can read show no new leader
// either.
//
// What only the controller's log or metrics show is no basis for a write: its log also holds
// whatever a driver says.
var controllerGuard = Guard{GuardController, onLeases, func(v *View, proposed *Repair) error {
	if lease := v.Facts.ControllerDown(); lease != nil {
		return &Refusal{Guard: GuardController, SafeOnce: "{fix} bring kube-controller-manager back",
			Reason: fmt.Sprintf("no kube-controller-manager leads since %s; one that comes back decides by what it finds", facts.Stamp(facts.Renewed(lease)))}
	}
	if v.Facts.ControllerJustStarted() {
		return fmt.Errorf("kube-controller-manager has a new leader since %v ago and may still be at work; wait until it has led for %v",
			v.Facts.Age(v.Facts.ControllerStart()).Round(time.Second), facts.ControllerGrace)
	}
	if proposed.Finding.ControllerAlone {
		return fmt.Errorf("so far only kube-controller-manager itself shows it; wait until the objects do, %v after the VolumeAttachment was made", facts.DanglingGrace)
	}
	return nil
}, "{note} look again in a few minutes"}

// findingGuard holds while the same finding is found, and is certain. The kinds that it rests
// on are those that the finding's check needs: see action.repair.
var findingGuard = Guard{GuardFinding, nil, func(v *View, proposed *Repair) error {
	// a write needs more than a check's finding about a part
	if err := Complete(v.Snapshot, needsOf(proposed.Finding.Code)); err != nil {
		return completeGuard(nil).refuse(err)
	}
	if f := v.lookUp(proposed.Finding.Fingerprint); f != nil {
		if s := f.Settles; s != nil {
			return &Refusal{Guard: guardCertain, SafeOnce: "{note} look again then", Reason: fmt.Sprintf("the cause is only suspected; it is certain at %s if %s", facts.Stamp(s.At), s.If)}
		}
		return nil
	}
	return errors.New("it is no longer found")
}, ""}

// CannotTell says why the report cannot tell whether there is a finding of this code; nil
// where it can.
func (v *View) CannotTell(code finding.Code) error {
	for _, skipped := range v.Report.SkippedChecks {
		if skipped.Code == code {
			return fmt.Errorf("check %s could not run without the %s", skipped.Check, skipped.Because)
		}
	}
	return nil
}

// allowedGuard holds where the user has named the kind of repair. It is the last guard: every
// other refusal must be known before anybody is asked for consent.
func allowedGuard(kind Kind) Guard {
	return Guard{GuardAllowed, nil, func(v *View, _ *Repair) error {
		if slices.Contains(v.Consent.Allow, kind) {
			return nil
		}
		return fmt.Errorf("it is never made unasked: see kubectl volume-doctor explain %s, then give --allow %s", kind, kind)
	}, ""}
}

// fencedGuard holds where the user has said that the finding's node cannot write any more, and no
// object contradicts that, as a Ready node does. A node that is not Ready may still write: it may
// only be cut off from the API server.
var fencedGuard = Guard{GuardFenced, nil, func(v *View, r *Repair) error {
	node := r.Finding.Node
	if !slices.Contains(v.Consent.Fenced, node) {
		return fmt.Errorf("only you can know that node %s is powered off, or cut off from the storage, and stays so: if you have made sure, give --fenced %s", node, safetext.Quote(string(node)))
	}
	return nil
}, ""}

// checkNotAlive refuses where the node that is to be treated as fenced is alive.
func checkNotAlive(v *View, r *Repair) error {
	node := v.Snapshot.Node(r.Finding.Node)
	switch {
	case node == nil || v.Facts.Lost(node):
		return aliveAs(v, r.Finding.Node)
	case reconcile.NodeReady(node):
		return fmt.Errorf("node %s is Ready: its kubelet is alive and may have the volume mounted", node.Name)
	default:
		return fmt.Errorf("the kubelet of node %s is alive, and may have the volume mounted: the node is only not Ready", node.Name)
	}
}

// aliveAs refuses where the machine of a lost or missing node is alive under another name: it
// cannot be off.
func aliveAs(v *View, name types.NodeName) error {
	alias := v.Facts.AliveAs(name)
	if alias == nil {
		return nil
	}
	return &Refusal{Guard: notAlive, SafeOnce: fmt.Sprintf("{note} make sure on node %s that nothing of it is mounted there any more", alias.Node.Name), Reason: fmt.Sprintf("the machine of node %s is alive as node %s (%s), and may have the volume mounted", name, alias.Node.Name, alias.Shows.Field)}
}

// checkSameAttachment and checkSameVolume: an object that was deleted and recreated has
// another UID, and is not the object that was reviewed.
func checkSameAttachment(v *View, r *Repair) error { return checkSame(v, r, "VolumeAttachment") }

func checkSameVolume(v *View, r *Repair) error { return checkSame(v, r, "volume") }

func checkSame(v *View, r *Repair, kind string) error {
	now := v.Stored(r.Do.Target)
	switch {
	case now == nil:
		return fmt.Errorf("%s %s does not exist", kind, r.Do.Target.Name)
	case now.GetUID() != r.Do.Target.UID:
		return fmt.Errorf("%s %s is not the object that was examined: it was deleted and recreated", kind, now.GetName())
	}
	return nil
}

// shutDownByCloud reports whether a cloud's controller has found the machine stopped
// (cloud-provider, node lifecycle controller). It removes the taint once the node is Ready
// again. Until then a kubelet that boots mounts nothing: it has not reached the API server yet.
func shutDownByCloud(node *corev1.Node) bool {
	return node != nil && !reconcile.NodeReady(node) &&
		slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == reconcile.ShutdownTaint })
}
