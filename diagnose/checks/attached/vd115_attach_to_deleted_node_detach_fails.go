package attached

import (
	"fmt"
	"slices"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

var AttachToDeletedNodeDetachFails = check.Check{
	Code:     "VD115",
	Name:     "attach-to-deleted-node-detach-fails",
	Title:    "A VolumeAttachment of a node that is gone cannot be deleted: the driver does not find the machine",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(),
	OfDriver: true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD118"}, Match: goneWithTheOthers},
	},
	Never: "take the finalizer off because the Node is missing: its machine may still run and write",
	Run:   runAttachToDeletedNodeDetachFails,
}

func runAttachToDeletedNodeDetachFails(p *check.Run) {
	for _, va := range p.Attachments() {
		if detachStuck(p.View, va) && detachFromDeletedNode(p.View, va) {
			detachFromNowhere(p, va)
		}
	}
}

// detachFromDeletedNode reports whether the driver cannot detach the volume because the machine
// is gone with its node. With another message, or with pods left on the node, it is
// va-stuck-deleting.
func detachFromDeletedNode(p *facts.View, va facts.Attachment) bool {
	return p.Snapshot.Node(va.Node) == nil && va.Status.DetachError != nil && facts.MachineNotFound(va.Spec.Attacher, va.Status.DetachError.Message) &&
		len(p.World.LivePods(va.VolumeNode)) == 0
}

func detachFromNowhere(p *check.Run, va facts.Attachment) {
	pv := p.ShortVolumeOf(va)
	f := p.About(va, finding.Finding{
		Since:   va.DeletionTimestamp,
		Message: fmt.Sprintf("Volume %s cannot be detached from node %s, which is gone: the driver cannot find it", pv, va.Node),
		Said:    facts.QuoteDriver(va.Spec.Attacher, va.Status.DetachError),
		Cause: "the machine was most likely deleted before the volume was detached; the driver counts what it cannot find as a failure, " +
			"not as a volume that is detached",
		Evidence:  append([]finding.Evidence{{Object: "node/" + string(va.Node), Field: "metadata.name", Value: "there is no such node"}}, failingDetach(va)...),
		SelfHeals: finding.SelfHeals{Because: "the driver fails as long as the node is gone; the attacher asks the driver again, at most 5 min apart"},
		Advice:    "{change} upgrade the driver to a release that counts a volume as detached where the machine is gone; where none does, explain VD115 has when the object may go without it",
		ByHand: "{check} check at the provider that the machine is deleted and that the volume is attached nowhere; then {final} take the attacher's finalizer off, as explain VD115 " +
			"shows",
	})
	if id := va.Annotations[reconcile.NodeIDAnnotation]; id != "" {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "metadata.annotations[" + reconcile.NodeIDAnnotation + "]", Value: id})
	}
	p.AddKeptFrom(&f)
	p.Report(f)
}

// goneWithTheOthers reports whether the node is one of those that went together, before the
// driver's volumes were detached.
func goneWithTheOthers(p *facts.View, cause, effect finding.Finding) bool {
	return check.SameDriver(p, cause, effect) && p.Snapshot.Node(effect.Node) == nil &&
		slices.ContainsFunc(p.AttachmentsOn(effect.Node), func(va *storagev1.VolumeAttachment) bool {
			return va.Spec.Attacher == p.DriverOf(cause) && facts.Holds(va)
		})
}
