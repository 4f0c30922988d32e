package facts

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// GoneProof is why the attachment is not merely in flight, and since when.
type GoneProof struct {
	Since    metav1.Time
	How      string
	Evidence finding.Evidence
	// Elsewhere says that the volume has been attached to another node since.
	Elsewhere bool
}

// findRemoved finds the last event that tells of a node's removal, for each node.
func (p *View) findRemoved() map[types.NodeName]*corev1.Event {
	removed := map[types.NodeName]*corev1.Event{}
	for _, e := range p.Snapshot.Events {
		if e.InvolvedObject.Kind != "Node" || !slices.Contains(removals, e.Reason) {
			continue
		}
		node := types.NodeName(e.InvolvedObject.Name)
		if last := removed[node]; last == nil || EventTime(e).After(EventTime(last).Time) {
			removed[node] = e
		}
	}
	return removed
}

// GoneSince proves that the attachment's node is gone for good, and since when. A removal
// before the VolumeAttachment was made is that of an earlier node of the name.
func (p *View) GoneSince(va Attachment) (GoneProof, bool) {
	last := p.memory.removed.get(p, (*View).findRemoved)[va.Node]
	// Of a list that is not whole the last event may be missing.
	if last != nil && p.Snapshot.Complete(snapshot.Events) && SaidSince(last, va.CreationTimestamp) {
		at := EventTime(last)
		return GoneProof{at, fmt.Sprintf("the node was removed %s ago", Rounded(p.Age(at))),
			finding.Evidence{Object: "event/" + last.Namespace + "/" + last.Name, Field: "reason", Value: last.Reason + " at " + Stamp(at)}, false}, true
	}
	other := p.AttachedElsewhere(va.VolumeNode)
	if other == nil || !p.OneNode(va.Volume) || !va.CreationTimestamp.Before(&other.CreationTimestamp) {
		return GoneProof{}, false
	}
	at := other.CreationTimestamp
	return GoneProof{at, fmt.Sprintf("the controller has forgotten that, and attached the volume to node %s %s ago", other.Node, Rounded(p.Age(at))),
		finding.Evidence{Object: other.Object(), Field: "metadata.creationTimestamp", Value: fmt.Sprintf("%s on node %s, for a volume that one node at a time may use", Stamp(at), other.Node)}, true}, true
}

// removals are the reasons of the events with which the node controllers tell
// that a Node has gone, or is about to because its machine has.
var removals = []string{"DeletingNode", "RemovingNode"}
