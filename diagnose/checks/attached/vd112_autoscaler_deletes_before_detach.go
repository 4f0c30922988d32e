package attached

import (
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var AutoscalerDeletesBeforeDetach = check.Check{
	Code:     "VD112",
	Name:     "autoscaler-deletes-before-detach",
	Title:    "A volume stays attached to a node that was removed before its volumes were detached",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	Yields: []check.Yield{
		{To: "VD118", Key: check.OfDriverOnGoneNode},
	},
	Group: check.LostNode,
	Never: "take its finalizer off: the driver is then never asked to detach the volume",
	Run:   runAutoscalerDeletesBeforeDetach,
}

func runAutoscalerDeletesBeforeDetach(p *check.Run) {
	if p.ControllerYounger(facts.EvictionGrace) {
		return // it counts anew for every node that is missing
	}
	for _, va := range p.Attachments() {
		if p.Snapshot.Node(va.Node) != nil || !va.Holds() || !va.Ours() || len(p.World.LivePods(va.VolumeNode)) > 0 {
			continue
		}
		if len(p.KeptFrom(va.VolumeNode)) > 0 {
			continue // node-lost-6min
		}
		// How long the Node has been gone only these two show. Less than a forced
		// detach takes, or unknown, is in flight.
		if proof, ok := p.GoneSince(va); ok && p.Age(proof.Since) >= facts.EvictionGrace {
			attachedToNowhere(p, va, proof)
		}
	}
}

func attachedToNowhere(p *check.Run, va facts.Attachment, proof facts.GoneProof) {
	pv := p.ShortVolume(va.Volume)
	f := p.About(va, finding.Finding{
		Since:   &proof.Since,
		Message: fmt.Sprintf("Volume %s still counts as attached to node %s, which is gone", pv, va.Node),
		Detail:  proof.How,
		Cause: "the machine was removed, by an autoscaler, a termination handler or by hand, before its volumes were detached, and the controller has " +
			"lost sight of the volume or does not detach by force",
		Evidence: []finding.Evidence{
			{Object: "node/" + string(va.Node), Field: "metadata.name", Value: "there is no such node"},
			{Object: va.Object(), Field: "status.attached", Value: "true, not being deleted"},
			proof.Evidence,
		},
		SelfHeals: finding.SelfHeals{Because: "the controller detaches from a node that is gone within about 8 min, or not at all; one that restarts takes the " +
			"VolumeAttachment up again, unless it runs with --disable-force-detach-on-timeout"},
		Advice: "have whatever removes nodes drain them and wait for their VolumeAttachments first",
		ByHand: fmt.Sprintf("check at the provider that the machine behind %s is gone, then delete the VolumeAttachment", va.Node),
	})
	if id := va.Annotations[reconcile.NodeIDAnnotation]; id != "" {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "metadata.annotations[" + reconcile.NodeIDAnnotation + "]", Value: id})
	}
	if proof.Elsewhere {
		f.Advice = "end the pods that use the volume elsewhere first, unless your driver is known to detach by node: others would take it from there; " + f.Advice
	}
	p.Report(f)
}
