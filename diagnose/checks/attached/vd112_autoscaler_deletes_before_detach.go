package attached

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

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
	OfDriver: true,
	Yields: []check.Yield{
		{To: "VD118", Key: check.OfDriverOnGoneNode},
	},
	Never: "take its finalizer off: the driver is then never asked to detach the volume",
	Run:   runAutoscalerDeletesBeforeDetach,
}

func runAutoscalerDeletesBeforeDetach(p *check.Run) {
	if p.ControllerYounger(facts.EvictionGrace) {
		return // for every missing node it starts to count again
	}
	removed := removedNodes(p)
	for _, va := range p.Attachments() {
		if p.Snapshot.Node(va.Node) != nil || !va.Holds() || !va.Ours() || len(p.World.LivePods(va.VolumeNode)) > 0 {
			continue
		}
		if len(p.KeptFrom(va.VolumeNode)) > 0 {
			continue // node-lost-6min
		}
		// Only these two show for how long the Node has been gone. A shorter or unknown time is a
		// detach in flight.
		if proof, ok := goneSince(p, removed, va); ok && p.Age(proof.since) >= facts.EvictionGrace {
			attachedToNowhere(p, va, proof)
		}
	}
}

func attachedToNowhere(p *check.Run, va facts.Attachment, proof goneProof) {
	pv := p.ShortVolumeOf(va)
	f := p.About(va, finding.Finding{
		Since:   &proof.since,
		Message: fmt.Sprintf("Volume %s still counts as attached to node %s, which is gone", pv, va.Node),
		Detail:  proof.how,
		Cause: "the machine was removed, by an autoscaler, a termination handler or by hand, before its volumes were detached, and the controller has " +
			"lost sight of the volume or does not detach by force",
		Evidence: []finding.Evidence{
			{Object: "node/" + string(va.Node), Field: "metadata.name", Value: "there is no such node"},
			{Object: va.Object(), Field: "status.attached", Value: "true, not being deleted"},
			proof.evidence,
		},
		SelfHeals: finding.SelfHeals{Because: "its VolumeAttachment has to be deleted, or the controller restarted; the controller would have " +
			"detached the volume within about 8 min of the node's end; a restarted one takes the VolumeAttachment up again, unless it runs with --disable-force-detach-on-timeout"},
		Advice: "{later} have whatever removes nodes drain them first, until they have no VolumeAttachments",
		ByHand: fmt.Sprintf("{check} check at the provider that the machine behind %s is gone, then {final} delete the VolumeAttachment", va.Node),
	})
	if id := va.Annotations[reconcile.NodeIDAnnotation]; id != "" {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "metadata.annotations[" + reconcile.NodeIDAnnotation + "]", Value: id})
	}
	if proof.elsewhere {
		f.ByHand = "{final} end the pods that use the volume elsewhere first, as some drivers would detach it there, too; " + f.ByHand
	}
	p.Report(f)
}

// goneProof shows that the attachment is not merely in flight.
type goneProof struct {
	since    metav1.Time
	how      string
	evidence finding.Evidence
	// elsewhere reports whether the volume was attached to another node later.
	elsewhere bool
}

// removedNodes are the last event about the removal of each node.
func removedNodes(p *check.Run) map[types.NodeName]*corev1.Event {
	removed := map[types.NodeName]*corev1.Event{}
	for _, e := range p.Snapshot.Events {
		if e.InvolvedObject.Kind != "Node" || !slices.Contains(removals, e.Reason) {
			continue
		}
		node := types.NodeName(e.InvolvedObject.Name)
		if last := removed[node]; last == nil || snapshot.EventTime(e).After(snapshot.EventTime(last).Time) {
			removed[node] = e
		}
	}
	return removed
}

// goneSince proves that the attachment's node is gone for good, and since when. A removal from
// before the VolumeAttachment was made is about an earlier node of that name.
func goneSince(p *check.Run, removed map[types.NodeName]*corev1.Event, va facts.Attachment) (goneProof, bool) {
	last := removed[va.Node]
	// An incomplete list may lack the last event.
	if last != nil && p.Snapshot.Complete(snapshot.Events) && facts.SaidSince(last, va.CreationTimestamp) {
		at := snapshot.EventTime(last)
		return goneProof{at, fmt.Sprintf("the node was removed %s ago", facts.Rounded(p.Age(at))),
			finding.Evidence{Object: "event/" + last.Namespace + "/" + last.Name, Field: "reason", Value: last.Reason + " at " + facts.Stamp(at)}, false}, true
	}
	other := attachedElsewhere(p.View, va.VolumeNode)
	if other == nil || !p.OneNode(va.Volume) || !va.CreationTimestamp.Before(&other.CreationTimestamp) {
		return goneProof{}, false
	}
	at := other.CreationTimestamp
	return goneProof{at, fmt.Sprintf("the controller has forgotten that, and attached the volume to node %s %s ago", other.Node, facts.Rounded(p.Age(at))),
		finding.Evidence{Object: other.Object(), Field: "metadata.creationTimestamp", Value: fmt.Sprintf("%s on node %s, for a volume that one node at a time may use", facts.Stamp(at), other.Node)}, true}, true
}

// removals are the reasons of the events in which the node controllers report that a Node has
// gone, or goes because its machine has.
var removals = []string{"DeletingNode", "RemovingNode"}
