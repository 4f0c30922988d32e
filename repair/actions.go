package repair

import (
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Kind names a way to repair. It is part of the output's contract.
type Kind string

// The kinds of repair, in the order of their risk, the lowest first.
const (
	// Wait writes nothing: the finding heals by itself.
	Wait Kind = "wait"
	// Nudge has the attacher retry now what it was already asked for.
	Nudge Kind = "nudge"
	// TouchVolume has the attacher look at a persistent volume again.
	TouchVolume Kind = "touch-volume"
	// CyclePod deletes a pod that has never started, so that its controller makes a new one.
	CyclePod Kind = "cycle-pod"
	// PatchNodeStatus adds the entry that a node's volumesAttached has lost.
	PatchNodeStatus Kind = facts.AddsEntry
	// PruneNodeStatus takes an entry off a node's volumesAttached for a volume that is not
	// attached there.
	PruneNodeStatus Kind = "prune-node-status"
	// CreateAttachment makes the VolumeAttachment that a node waits for.
	CreateAttachment Kind = "create-attachment"
	// RemoveOutOfServiceTaint takes the taint off a node that lives.
	RemoveOutOfServiceTaint Kind = "remove-out-of-service-taint"
	// Republish has the attacher publish an attached volume once more.
	Republish Kind = "re-publish"
	// DeleteAttachment has the driver detach a volume that nobody wants there.
	DeleteAttachment Kind = "delete-attachment"
	// UnpublishOrphan has the driver detach a volume that is attached without any record
	// in the cluster.
	UnpublishOrphan Kind = "unpublish-orphan"
	// DeleteFencedAttachment is DeleteAttachment for a node that is off.
	DeleteFencedAttachment Kind = "delete-fenced-attachment"
	// OutOfServiceTaint declares a node out of service.
	OutOfServiceTaint Kind = "out-of-service-taint"
	// StripFinalizer removes the attacher's finalizer from a VolumeAttachment that no
	// attacher will ever let go.
	StripFinalizer Kind = "strip-finalizer"
)

// action describes one kind of repair.
type action struct {
	kind Kind
	risk Risk
	// codes are the findings that it can fix.
	codes []finding.Code
	// detaches reports whether it takes a volume from a node: it is carried out before any
	// repair that lets a pod start elsewhere.
	detaches bool
	// needs are the rights that the repair needs, without names. Undo needs undoNeeds where
	// it needs others.
	needs, undoNeeds []Permission
	// guards are the conditions that must hold, once the kinds that they rest on were read in
	// full. Guards that only some of the findings ask for come after them.
	guards  []Guard
	propose proposer
	// undo works out how such a write is taken back; nil where nothing can take it back. It asks
	// undoGuards.
	undo       func(Written) (*Reversal, error)
	undoGuards []Guard
}

// proposer works out the part of a repair that differs from finding to finding. An error says
// why this kind of repair does not fit the finding, whatever the guards would say.
type proposer func(*View, finding.Finding) (Repair, error)

// repair works out the repair of the finding.
func (a action) repair(v *View, f finding.Finding) (Repair, error) {
	r, err := a.propose(v, f)
	if err != nil {
		return Repair{}, err
	}
	guards := slices.Concat(a.guards, r.Guards)
	r.Finding, r.Kind, r.Risk, r.reads = f, a.kind, a.risk, union(restOn(guards), needsOf(f.Code))
	r.Guards = slices.Concat([]Guard{completeGuard(r.reads)}, guards)
	r.Needs = rightsTo(r.Do.Target, a.needs)
	r.Summary = r.summary()
	for _, g := range a.undoGuards {
		if r.notUndone == "" {
			r.notUndone = notUndone[g.Name]
		}
	}
	return r, nil
}

// needsOf are the kinds that the check of the code needs: the finding rests on them.
func needsOf(code finding.Code) []snapshot.Kind { return checkNeeds()[code] }

var checkNeeds = sync.OnceValue(func() map[finding.Code][]snapshot.Kind {
	needs := map[finding.Code][]snapshot.Kind{}
	for _, c := range diagnose.Checks() {
		needs[c.Code] = c.Needs
	}
	return needs
})

// rightsTo are the rights limited to the one object. A right to create keeps no name: RBAC
// does not look at the name of an object that is created.
func rightsTo(object corev1.ObjectReference, rights []Permission) []Permission {
	named := slices.Clone(rights)
	for i := range named {
		if named[i].Verb != VerbCreate {
			named[i].Namespace, named[i].Name = object.Namespace, object.Name
		}
	}
	return named
}

// onNode makes a proposer that is given the finding's node.
func onNode(propose func(*View, finding.Finding, *corev1.Node) (Repair, error)) proposer {
	return func(v *View, f finding.Finding) (Repair, error) {
		node := v.Snapshot.Node(f.Node)
		if node == nil {
			return Repair{}, fmt.Errorf("node %q: %w", f.Node, ErrNotFound)
		}
		return propose(v, f, node)
	}
}

// onAttachment makes a proposer that is given the finding's VolumeAttachment.
func onAttachment(propose func(*View, finding.Finding, *storagev1.VolumeAttachment) (Repair, error)) proposer {
	return func(v *View, f finding.Finding) (Repair, error) {
		va := v.Snapshot.VolumeAttachment(f.VolumeAttachment)
		if va == nil {
			return Repair{}, fmt.Errorf("VolumeAttachment %q: %w", f.VolumeAttachment, ErrNotFound)
		}
		return propose(v, f, va)
	}
}

// actions are every kind of repair that writes, lowest risk first.
func actions() []action {
	return []action{
		nudge,
		touchVolume,
		cyclePod,
		patchNodeStatus,
		pruneNodeStatus,
		createAttachment,
		removeTaint,
		republish,
		deleteAttachment,
		unpublishOrphan,
		deleteFencedAttachment,
		outOfServiceTaint,
		stripFinalizer,
	}
}

// Kinds are the kinds of repair that write, lowest risk first.
func Kinds() []Kind {
	var kinds []Kind
	for _, r := range actions() {
		kinds = append(kinds, r.kind)
	}
	return kinds
}

// KindsFor are the kinds of repair that are tried for a finding of the check, lowest
// risk first.
func KindsFor(code finding.Code) []Kind {
	var kinds []Kind
	for _, r := range actions() {
		if slices.Contains(r.codes, code) {
			kinds = append(kinds, r.kind)
		}
	}
	return kinds
}

func actionOf(kind Kind) (action, bool) {
	all := actions()
	i := slices.IndexFunc(all, func(r action) bool { return r.kind == kind })
	if i < 0 {
		return action{}, false
	}
	return all[i], true
}

// choose returns the repair of the lowest risk that fixes the finding and that no guard refuses.
// Where guards refuse all, it returns the first that lacks only the user's consent, or else the
// first; nil where no kind of repair fits.
func choose(v *View, f finding.Finding) *Repair {
	var best *Repair
	var lower []finding.LowerRepair
	pass := func(kind Kind, because string) {
		lower = append(lower, finding.LowerRepair{Kind: string(kind), Because: because})
	}
	if !f.SelfHeals.Will {
		pass(Wait, f.SelfHeals.Because)
	}
	for order, action := range actions() {
		if !slices.Contains(action.codes, f.Code) {
			continue
		}
		r, err := action.repair(v, f)
		if err != nil {
			pass(action.kind, err.Error())
			continue
		}
		if f.SelfHeals.Will && !r.asksConsent() {
			continue // to wait is safer still
		}
		r.order = order
		if !action.detaches {
			r.order += len(actions())
		}
		r.Lower = slices.Clone(lower)
		r.BlockedBy = refusal(v, &r)
		if r.BlockedBy == nil {
			return &r
		}
		pass(action.kind, r.BlockedBy.Reason)
		if best == nil || !best.lacksConsent() && r.lacksConsent() {
			best = &r
		}
	}
	return best
}

// lacksConsent reports whether the repair is refused and the user's word alone would allow
// it.
func (r *Repair) lacksConsent() bool { return r.BlockedBy != nil && r.BlockedBy.consent() }

// asksConsent reports whether the repair is never made without the user's word.
func (r *Repair) asksConsent() bool {
	return slices.ContainsFunc(r.Guards, func(g Guard) bool { return consents(g.Name) })
}
