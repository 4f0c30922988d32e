package repair

import (
	"errors"
	"fmt"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var unpublishOrphan = action{
	kind:     UnpublishOrphan,
	risk:     RiskHigh,
	codes:    []finding.Code{"VD404"},
	detaches: true,
	needs:    []Permission{RightTo(VerbCreate, snapshot.VolumeAttachments, ""), RightTo(VerbDelete, snapshot.VolumeAttachments, "")},
	guards: []Guard{
		controllerGuard,
		findingGuard,
		volumeKnownGuard,
		holderKnownGuard,
		{"not-used", onWorlds, func(v *View, r *Repair) error { return notUsedOn(v, r, r.Finding.Holder) }, notReported},
		{"not-reported", onNodes, func(v *View, r *Repair) error { return notListedOn(v, r, r.Finding.Holder) }, notReported},
		{"none-of-pair", onWorlds, func(v *View, r *Repair) error { return noneOn(v, r, r.Finding.Holder) }, ""},
		nowhereAttachedGuard,
		{"refused-alone", onWorlds, checkRefusedAlone, "diagnose with --for 11m"},
		storageHasGuard,
		attacherAtWorkGuard,
	},
	propose: proposeUnpublish,
	undo:    undoUnpublish,
}

// proposeUnpublish has the attacher detach a volume that is attached to a node without any record
// in the cluster. The attacher asks the driver only about a VolumeAttachment that is deleted. So
// one is created for the node, and deleted once the attacher has put its finalizer on it. The
// driver is first asked to attach, which it refuses or has done already, and then to detach.
func proposeUnpublish(v *View, f finding.Finding) (Repair, error) {
	if f.Holder == "" {
		return Repair{}, errors.New("no node of the cluster is known to hold it")
	}
	va, err := newAttachment(v, f, f.Holder, UnpublishOrphan)
	if err != nil {
		return Repair{}, err
	}
	return Repair{
		Do:      creation(va),
		WhyNot:  "to attach the volume again would only bring the failure back",
		OnlyIf:  fmt.Sprintf("nothing on node %s uses the volume, which is detached under it", f.Holder),
		Guards:  []Guard{holderGuard(v, f.Holder), allowedGuard(UnpublishOrphan)},
		follows: facts.FollowFor,
		landed:  func(v *View) bool { return created(v, va) != nil },
		stands:  func(v *View) bool { return created(v, va) == nil },
		pending: func(v *View) string {
			if v.Snapshot.VolumeAttachment(va.Name) != nil {
				return "the driver has not detached the volume from node " + string(f.Holder) + " yet"
			}
			if now := v.lookUp(f.Fingerprint); now != nil && now.Settles != nil {
				return fmt.Sprintf("the VolumeAttachment for node %s is gone, and the attacher has not asked for node %s again since", f.Holder, f.Node)
			}
			return ""
		},
		check: answered(func(after *storagev1.VolumeAttachment) error { return checkCreated(after, va) }),
		Next: &Step{
			Verb:  VerbDelete,
			Reads: restOn(withdrawGuards),
			// With the attacher's finalizer on it, the object does not vanish before the
			// driver is asked to detach.
			Ready: func(v *View) bool { now := created(v, va); return now == nil || facts.AttacherHolds(now) },
			Write: func(v *View) (*Write, error) { return deleteAgain(v, f, va) },
		},
	}, nil
}

// deleteAgain is the second write, the deletion. Where a pod that has come to the node
// meanwhile wants the volume, the attachment stays.
func deleteAgain(v *View, f finding.Finding, va *storagev1.VolumeAttachment) (*Write, error) {
	now := created(v, va)
	if now == nil {
		return nil, &Refusal{Guard: GuardGone, Reason: "the VolumeAttachment is gone already, or is being deleted"}
	}
	w, err := withdraw(v, now)
	if err != nil {
		return nil, err
	}
	w.Finding, w.Repair = RefTo(f), UnpublishOrphan
	return w, nil
}

// holderGuard holds where the node that loses the volume is alive: the objects then show whether
// it uses the volume. It also holds where the user or the cloud says that the node is off.
func holderGuard(v *View, holder types.NodeName) Guard {
	if checkLives(v, holder) == nil {
		return Guard{"node-lives", onNodes, func(v *View, r *Repair) error { return checkLives(v, r.Finding.Holder) }, "{fix} bring the node back: it has to be Ready"}
	}
	return Guard{GuardFenced, onNodes, func(v *View, r *Repair) error { return checkLivesOrOff(v, r.Finding.Holder) }, ""}
}

func checkHolderKnown(v *View, r *Repair) error {
	node := v.Snapshot.Node(r.Finding.Holder)
	if node == nil {
		return fmt.Errorf("node %s does not exist", r.Finding.Holder)
	}
	driver, _, _ := csiOf(v, r.Finding)
	if _, ok := v.Facts.NodeID(r.Finding.Holder, driver); !ok {
		return fmt.Errorf("driver %q is not registered on node %s, so that the attacher does not know how the driver calls it", driver, node.Name)
	}
	return nil
}

// checkRefusedAlone: where the volume has been detached since the driver refused, to publish
// it would attach it where nobody wants it.
func checkRefusedAlone(v *View, r *Repair) error {
	for _, va := range v.Facts.AttachmentsOf(r.Finding.Volume) {
		if va.Node == r.Finding.Node && v.Facts.RefusedAlone(va) {
			return nil
		}
	}
	return fmt.Errorf("the driver may have detached the volume since it refused; --for %s watches whether it refuses again while no other VolumeAttachment has the volume", facts.Rounded(facts.FollowFor))
}

// checkNowhereAttached: to publish a volume to a second node may take it from the first.
func checkNowhereAttached(v *View, r *Repair) error {
	attached := func(va *storagev1.VolumeAttachment) bool { return va.Status.Attached }
	if va := attachmentFor(v, r, attached); va != nil {
		return fmt.Errorf("VolumeAttachment %s says that the volume is attached to node %s", va.Name, va.Spec.NodeName)
	}
	return nil
}

// undoUnpublish takes back a creation that was not followed by its deletion.
func undoUnpublish(w Written) (*Reversal, error) {
	if w.Operation.Verb == VerbCreate {
		return undoCreate(w)
	}
	return irreversible(w, "it was deleted so that the driver would detach the volume"), nil
}
