package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var autoscalerDeletesBeforeDetach = Check{
	Code:     "VD112",
	Name:     "autoscaler-deletes-before-detach",
	Title:    "A volume stays attached to a node that was removed before its volumes were detached",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runAutoscalerDeletesBeforeDetach,
}

func runAutoscalerDeletesBeforeDetach(p *Pass) {
	if p.controllerYounger(evictionSettles) {
		return // it counts anew for every node that is missing
	}
	waiting, orphaned := p.waiting(), p.orphaned()
	for _, va := range p.attachments() {
		if p.Snapshot.Node(va.Node) != nil || !va.holds() || !va.ours() || len(p.World.LivePods(va.VolumeNode)) > 0 || orphaned[va.Spec.Attacher] != nil {
			continue
		}
		if p.oneNode(va.Volume) && len(elsewhere(waiting[va.Volume], va.Node)) > 0 {
			continue // node-lost-6min
		}
		// How long the Node has been gone only these two show. Less than a forced
		// detach takes, or unknown, is in flight.
		if proof, ok := p.goneSince(va); ok && p.Age(proof.since) >= evictionSettles {
			p.attachedToNowhere(va, proof)
		}
	}
}

// goneProof is why the attachment is not merely in flight, and since when.
type goneProof struct {
	since    metav1.Time
	how      string
	evidence Evidence
	// elsewhere says that the volume has been attached to another node since.
	elsewhere bool
}

// findRemoved finds the last event that tells of a node's removal, for each node.
func (p *Pass) findRemoved() map[types.NodeName]*corev1.Event {
	removed := map[types.NodeName]*corev1.Event{}
	for _, e := range p.Snapshot.Events {
		if e.InvolvedObject.Kind != "Node" || !slices.Contains(removals, e.Reason) {
			continue
		}
		node := types.NodeName(e.InvolvedObject.Name)
		if last := removed[node]; last == nil || eventTime(e).After(eventTime(last).Time) {
			removed[node] = e
		}
	}
	return removed
}

func (p *Pass) goneSince(va attachment) (goneProof, bool) {
	last := p.remember().removed.get(p.findRemoved)[va.Node]
	// Of a list that is not whole the last event may be missing.
	if last != nil && p.Snapshot.Complete(snapshot.Events) {
		at := eventTime(last)
		return goneProof{at, fmt.Sprintf(": it was removed %s ago", rounded(p.Age(at))),
			Evidence{"event/" + last.Namespace + "/" + last.Name, "reason", last.Reason + " at " + stamp(at)}, false}, true
	}
	other := p.attachedElsewhere(va.VolumeNode)
	if other == nil || !p.oneNode(va.Volume) || !va.CreationTimestamp.Before(&other.CreationTimestamp) {
		return goneProof{}, false
	}
	at := other.CreationTimestamp
	return goneProof{at, fmt.Sprintf(": the controller has forgotten that, and attached it to node %s %s ago", other.Node, rounded(p.Age(at))),
		Evidence{other.object(), "metadata.creationTimestamp", fmt.Sprintf("%s on node %s, for a volume that one node at a time may use", stamp(at), other.Node)}, true}, true
}

// removals are the reasons of the events with which the node controllers tell
// that a Node has gone, or is about to because its machine has.
var removals = []string{"DeletingNode", "RemovingNode"}

func (p *Pass) attachedToNowhere(va attachment, proof goneProof) {
	pv := p.shortVolume(va.Volume)
	f := Finding{
		Subject:          Object{Kind: "VolumeAttachment", Name: va.Name, UID: va.UID},
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Since:            &proof.since,
		Message:          fmt.Sprintf("Volume %s still counts as attached to node %s, which is gone%s", pv, va.Node, proof.how),
		Cause: "the machine was removed, by an autoscaler, a termination handler or by hand, before its volumes were detached, and the controller has " +
			"lost sight of the volume or does not detach by force",
		Evidence: []Evidence{
			{"node/" + string(va.Node), "metadata.name", "there is no such node"},
			{va.object(), "status.attached", "true, not being deleted"},
			proof.evidence,
		},
		SelfHeals: SelfHeals{Because: "the controller detaches from a node that is gone within about 8 min, or not at all; one that starts anew takes the " +
			"VolumeAttachment up again, unless it runs with --disable-force-detach-on-timeout"},
		Advice: fmt.Sprintf("see at the provider that the machine behind %s is gone, then delete the VolumeAttachment and leave its finalizer alone: the driver "+
			"then detaches the volume. Have whatever removes nodes drain them and wait for their VolumeAttachments first", va.Node),
	}
	if id := va.Annotations[machineAnnotation]; id != "" {
		f.Evidence = append(f.Evidence, Evidence{va.object(), "metadata.annotations[" + machineAnnotation + "]", id})
	}
	if proof.elsewhere {
		f.Advice += ". Some drivers detach by the volume alone, and would take it from where it is in use: end its pods there first unless yours is known not to"
	}
	p.Report(f)
}
