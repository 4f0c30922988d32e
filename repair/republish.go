package repair

import (
	"fmt"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var republish = action{
	kind:  Republish,
	risk:  RiskMedium,
	codes: []finding.Code{"VD123", "VD308"},
	needs: []Permission{RightTo(VerbPatch, snapshot.VolumeAttachments, "").of("status")},
	guards: []Guard{
		controllerGuard,
		findingGuard,
		sameAttachmentGuard,
		nodeReadyGuard,
		nodeManagedGuard,
		nodeInServiceGuard,
		wantedGuard,
		onlyWaitingGuard,
		attachedGuard,
		noAttachErrorGuard,
		sameMachineGuard,
		nodeIDGuard,
		notElsewhereGuard,
		storageLacksGuard,
		attacherAtWorkGuard,
		allowedGuard(Republish),
	},
	propose: onAttachment(proposeRepublish),
}

const attachedPath = "/status/attached"

// proposeRepublish resets status.attached of a VolumeAttachment. The attacher then publishes
// the volume once more, which a driver must accept where nothing has changed (CSI:
// ControllerPublishVolume is idempotent), and sets attached again. Until then the controller
// may take the volume off the node's list, and put it there again.
func proposeRepublish(v *View, f finding.Finding, va *storagev1.VolumeAttachment) (Repair, error) {
	return Repair{
		SoThat: "the driver is asked to attach it again",
		OnlyIf: fmt.Sprintf("the storage system does not have the volume attached to node %s", va.Spec.NodeName),
		Do: Operation{
			Verb: VerbPatch, Target: refTo(snapshot.VolumeAttachments, va), Subresource: "status",
			Patch: patchOf(va.ObjectMeta, patchOp{"test", attachedPath, Compact(true)}, patchOp{"replace", attachedPath, Compact(false)}),
		},
		WhyNot:   "the attacher sets status.attached again itself once the driver has published the volume",
		PreImage: Compact(map[string]any{"status": map[string]any{"attached": va.Status.Attached}}),
		stands:   func(v *View) bool { return sameAttachment(v, va) != nil },
		landed:   func(v *View) bool { now := sameAttachment(v, va); return now != nil && !now.Status.Attached },
		pending:  func(v *View) string { return publishing(sameAttachment(v, va)) },
		moot:     func(v *View) bool { return v.World.Desired.Find(f.Pair()) == nil },
		check:    answered(checkDetachedStatus),
	}, nil
}

// sameAttachment is the current object; nil where it is gone or being deleted.
func sameAttachment(v *View, va *storagev1.VolumeAttachment) *storagev1.VolumeAttachment {
	now := v.Snapshot.VolumeAttachment(va.Name)
	if now == nil || now.UID != va.UID || now.DeletionTimestamp != nil {
		return nil
	}
	return now
}

func checkDetachedStatus(after *storagev1.VolumeAttachment) error {
	if after.Status.Attached {
		return fmt.Errorf("the API server would leave status.attached at true")
	}
	return nil
}
