package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var detachAsksNewMachine = Check{
	Code:     "VD125",
	Name:     "detach-asks-new-machine",
	Title:    "A volume is to be detached from a machine that only has the name of the one it was attached to",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes,
	},
	Run: runDetachAsksNewMachine,
}

func runDetachAsksNewMachine(p *Pass) {
	waiting := p.waiting()
	for _, va := range p.attachments() {
		if was, is, ok := p.asksNewMachine(va); ok {
			p.detachAsksNewMachine(va, was, is, elsewhere(waiting[va.Volume], va.Node))
		}
	}
}

// asksNewMachine gives the machine that the volume was attached to and the one
// that its detach asks about, where they differ, the Node was made anew in
// between and no pod there uses the volume. The attacher takes the node's id
// from the CSINode, and the one that it attached with only where there is none.
func (p *Pass) asksNewMachine(va attachment) (was, is string, ok bool) {
	node := p.Snapshot.Node(va.Node)
	if node == nil || !va.Status.Attached || !va.ours() || !va.CreationTimestamp.Before(&node.CreationTimestamp) || !p.settled(node) ||
		len(p.World.LivePods(va.VolumeNode)) > 0 {
		return "", "", false // same-name-new-instance tells of the pods there
	}
	was, is = va.Annotations[machineAnnotation], p.machine(va)
	return was, is, was != "" && is != "" && was != is
}

func (p *Pass) detachAsksNewMachine(va attachment, was, is string, waiters []*corev1.Pod) {
	node, pv := p.Snapshot.Node(va.Node), p.shortVolume(va.Volume)
	since := node.CreationTimestamp
	f := Finding{
		Subject:          vaObject(va.VolumeAttachment),
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Since:            &since,
		Message: fmt.Sprintf("Volume %s was attached to machine %s, and node %s is machine %s now: its detach asks the driver about that one, which never had it",
			pv, was, va.Node, is),
		Cause: "the machine was replaced, and its successor took the name before the volume was detached; the attacher takes the id from the CSINode",
		Evidence: []Evidence{
			{va.object(), "metadata.annotations[" + machineAnnotation + "]", was},
			{"csinode/" + node.Name, "spec.drivers[" + va.Spec.Attacher + "].nodeID", is},
			{va.object(), "metadata.creationTimestamp", stamp(va.CreationTimestamp)},
			{"node/" + node.Name, "metadata.creationTimestamp", stamp(node.CreationTimestamp)},
		},
		SelfHeals: SelfHeals{Because: "a driver that finds nothing on the new machine says that it is done; the old machine, if it lives, still has the volume"},
		Advice: fmt.Sprintf("before anything else, see at the provider where the volume is: if machine %s is gone the detach does no harm; if it lives, end what runs "+
			"there and detach the volume from it at the provider, or two machines may come to write to it", was),
	}
	if va.DeletionTimestamp != nil {
		f.Evidence = append(f.Evidence, Evidence{va.object(), "metadata.deletionTimestamp", stamp(*va.DeletionTimestamp)})
	}
	if len(waiters) > 0 && p.oneNode(va.Volume) {
		f.Severity, f.Pods = Error, podNames(waiters)
		f.Message += fmt.Sprintf("; pod %s waits for the volume on node %s", podName(waiters[0]), waiters[0].Spec.NodeName)
	}
	p.Report(f)
}
