package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var uncertainAfterFailedAttach = Check{
	Code:     "VD105",
	Name:     "uncertain-after-failed-attach",
	Title:    "An attach that failed is kept though no pod wants the volume there any more",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runUncertainAfterFailedAttach,
}

func runUncertainAfterFailedAttach(p *Pass) {
	if p.controllerYounger(danglingSettles) {
		return // a controller that starts takes the VolumeAttachment up again
	}
	for _, va := range p.attachments() {
		node, failure := p.Snapshot.Node(va.Node), va.Status.AttachError
		// A call without an answer may still succeed, and its volume be attached.
		if va.Status.Attached || va.DeletionTimestamp != nil || failure == nil || unanswered(failure.Message) || !va.ours() ||
			!reconcile.NodeReady(node) || !p.World.Managed.Has(va.Node) || !p.forgotten(va.VolumeNode) || p.goes(va) {
			continue
		}
		// The controller takes it for mounted until the node's next update.
		if since, long := p.unused(va); long && p.Age(since) >= danglingSettles {
			p.keptAfterFailure(Finding{Since: &since}, va)
		}
	}
}

// goes says that the attachment's volume is being deleted: pv-terminating-va-exists.
func (p *Pass) goes(va attachment) bool {
	pv := p.Snapshot.Volume(*va.Spec.Source.PersistentVolumeName)
	return pv != nil && pv.DeletionTimestamp != nil
}

func (p *Pass) keptAfterFailure(f Finding, va attachment) {
	failure := va.Status.AttachError
	f.Subject = Object{Kind: "VolumeAttachment", Name: va.Name, UID: va.UID}
	f.Volume, f.Node, f.PersistentVolume, f.VolumeAttachment = va.Volume, va.Node, p.shortVolume(va.Volume), va.Name
	f.Message = fmt.Sprintf("The attach of volume %s to node %s, which failed, is still asked for, though no pod there has wanted it for at least %s",
		f.PersistentVolume, f.Node, rounded(p.Age(*f.Since)))
	f.Cause = "the pod went away after its attach had failed; the controller, which cannot be sure that nothing is attached, took the volume for mounted and " +
		"has not come back to it"
	f.Evidence = []Evidence{
		{va.object(), "status.attachError", fmt.Sprintf("%s at %s", failure.Message, stamp(failure.Time))},
		{va.object(), "status.attached", "false, not being deleted"},
		{"node/" + string(va.Node), "status.volumesInUse", "lacks it; lists " + list(p.Snapshot.Node(va.Node).Status.VolumesInUse)},
	}
	f.SelfHeals = SelfHeals{Because: "the controller should have taken it back after the node's next update, within about 5 min; one that starts anew does"}
	f.Advice = fmt.Sprintf("kubectl delete volumeattachment %s, and leave its finalizer alone: the attacher then asks the driver to undo what there is, as the "+
		"controller would. Until then the attacher goes on trying to attach the volume here, where nobody wants it", va.Name)
	if pv := p.World.Volume(va.Volume); pv != nil && pv.Status.Phase == corev1.VolumeReleased {
		f.Evidence = append(f.Evidence, Evidence{"persistentvolume/" + pv.Name, "status.phase", "Released"})
	}
	p.Report(f)
}
