package repair

import (
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
)

// Kind names a way to repair. It is part of the output's contract.
type Kind string

// The kinds of repair, in the order of the ladder: the risk rises.
const (
	// Wait writes nothing: the finding heals by itself.
	Wait Kind = "wait"
	// Nudge has the attacher try again at once what it was asked for already.
	Nudge Kind = "nudge"
	// TouchVolume has the attacher look at a persistent volume again.
	TouchVolume Kind = "touch-volume"
	// CyclePod deletes a pod that has never started, for its controller to make
	// it anew.
	CyclePod Kind = "cycle-pod"
	// PatchNodeStatus adds the entry that a node's volumesAttached has lost.
	PatchNodeStatus Kind = "patch-node-status"
	// PruneNodeStatus takes an entry off a node's volumesAttached that stands for
	// nothing.
	PruneNodeStatus Kind = "prune-node-status"
	// CreateAttachment makes the VolumeAttachment that a node waits for.
	CreateAttachment Kind = "create-attachment"
	// RemoveOutOfServiceTaint takes the taint off a node that lives.
	RemoveOutOfServiceTaint Kind = "remove-out-of-service-taint"
	// Republish has the attacher publish an attached volume once more.
	Republish Kind = "re-publish"
	// DeleteAttachment has the driver detach a volume that nobody wants there.
	DeleteAttachment Kind = "delete-attachment"
	// UnpublishOrphan has the driver detach a volume of which the cluster has no
	// record.
	UnpublishOrphan Kind = "unpublish-orphan"
	// DeleteFencedAttachment is DeleteAttachment for a node that is off.
	DeleteFencedAttachment Kind = "delete-fenced-attachment"
	// OutOfServiceTaint tells the cluster that a node is out of service.
	OutOfServiceTaint Kind = "out-of-service-taint"
	// StripFinalizer lets a VolumeAttachment go that no attacher ever will.
	StripFinalizer Kind = "strip-finalizer"
)

// rung is one kind of repair.
type rung struct {
	kind Kind
	// codes are the findings that it can mend.
	codes []diagnose.Code
	// detaches says that it takes a volume from a node: it is carried out before
	// what lets a pod start elsewhere.
	detaches bool
	// needs are the rights that it takes, without names. Undo takes undoNeeds
	// where it differs.
	needs, undoNeeds []Permission
	// propose works the repair out. An error says why this kind is not for the
	// finding, whatever the guards would say.
	propose func(*View, diagnose.Finding) (Repair, error)
	// undo works out how to take such a write back; nil where nothing can.
	undo func(written) (*reversal, error)
}

// ladder is every kind of repair that writes, lowest risk first.
func ladder() []rung {
	return []rung{
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
	for _, r := range ladder() {
		kinds = append(kinds, r.kind)
	}
	return kinds
}

func rungOf(kind Kind) (rung, bool) {
	rungs := ladder()
	i := slices.IndexFunc(rungs, func(r rung) bool { return r.kind == kind })
	if i < 0 {
		return rung{}, false
	}
	return rungs[i], true
}

// climb finds the lowest rung that mends the finding and that no guard refuses.
// Where guards refuse them all, it is the lowest of those that lack nothing but
// the user's consent, or else the lowest of all; nil where there is no rung.
func climb(v *View, f diagnose.Finding) *Repair {
	var best *Repair
	var lower []diagnose.LowerRung
	pass := func(kind Kind, because string) {
		lower = append(lower, diagnose.LowerRung{Kind: string(kind), Because: because})
	}
	if !f.SelfHeals.Will {
		pass(Wait, f.SelfHeals.Because)
	}
	for order, rung := range ladder() {
		if !slices.Contains(rung.codes, f.Code) {
			continue
		}
		r, err := rung.propose(v, f)
		if err != nil {
			pass(rung.kind, err.Error())
			continue
		}
		r.Finding, r.Kind = f, rung.kind
		if f.SelfHeals.Will && !r.asksConsent() {
			continue // to wait is safer still
		}
		r.order = order
		if !rung.detaches {
			r.order += len(ladder())
		}
		r.Lower = slices.Clone(lower)
		r.BlockedBy = refusal(v, &r)
		if r.BlockedBy == nil {
			return &r
		}
		pass(rung.kind, r.BlockedBy.Error())
		if best == nil || !best.lacksConsent() && r.lacksConsent() {
			best = &r
		}
	}
	return best
}

// lacksConsent says that only the user's word stands between the repair and
// its being made.
func (r *Repair) lacksConsent() bool { return r.BlockedBy != nil && r.BlockedBy.consent() }

// asksConsent says that the repair is never made without the user's word.
func (r *Repair) asksConsent() bool {
	return slices.ContainsFunc(r.Guards, func(g Guard) bool { return g.Name == guardAllowed || g.Name == guardFenced })
}
