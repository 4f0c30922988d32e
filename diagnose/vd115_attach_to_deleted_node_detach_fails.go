package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var attachToDeletedNodeDetachFails = Check{
	Code:     "VD115",
	Name:     "attach-to-deleted-node-detach-fails",
	Title:    "A VolumeAttachment of a node that is gone cannot be deleted: the driver does not find the machine",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	},
	Run: runAttachToDeletedNodeDetachFails,
}

func runAttachToDeletedNodeDetachFails(p *Pass) {
	waiting := p.waiting()
	for _, va := range p.attachments() {
		if p.detachStuck(va) && p.detachFromDeletedNode(va) {
			p.detachFromNowhere(va, elsewhere(waiting[va.Volume], va.Node))
		}
	}
}

// detachFromDeletedNode says that the driver cannot detach the volume because
// the machine is gone with its node. Other words of the driver, and a node of
// which pods are left, are va-stuck-deleting.
func (p *Pass) detachFromDeletedNode(va attachment) bool {
	return p.Snapshot.Node(va.Node) == nil && va.Status.DetachError != nil && MachineNotFound(va.Status.DetachError.Message) &&
		len(p.World.LivePods(va.VolumeNode)) == 0
}

func (p *Pass) detachFromNowhere(va attachment, waiters []*corev1.Pod) {
	pv, failure := p.shortVolume(va.Volume), va.Status.DetachError
	f := Finding{
		Subject:          Object{Kind: "VolumeAttachment", Name: va.Name, UID: va.UID},
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Since:            va.DeletionTimestamp,
		Message: fmt.Sprintf("Volume %s has been on its way off node %s for %s; the node is gone, and the driver does not find its machine: %q",
			pv, va.Node, rounded(p.Age(*va.DeletionTimestamp)), failure.Message),
		Cause: "the machine was deleted before the volume was detached, and the driver takes a machine that it does not find for a failure, " +
			"not for a volume that is detached",
		Evidence: []Evidence{
			{"node/" + string(va.Node), "metadata.name", "there is no such node"},
			{va.object(), "metadata.deletionTimestamp", stamp(*va.DeletionTimestamp)},
			{va.object(), "metadata.finalizers", fmt.Sprint(va.Finalizers)},
			{va.object(), "status.detachError", fmt.Sprintf("%s at %s", failure.Message, stamp(failure.Time))},
		},
		SelfHeals: SelfHeals{Because: "the attacher asks the driver again, at most 5 min apart, and the machine will not come back"},
		Advice: "see at the provider that the machine is deleted and that the volume is attached nowhere; only then take the attacher's finalizer off, " +
			"as the page of this code shows, and upgrade the driver. On the word of the missing Node alone the volume may still be attached to a " +
			"machine that writes",
	}
	if id := va.Annotations[machineAnnotation]; id != "" {
		f.Evidence = append(f.Evidence, Evidence{va.object(), "metadata.annotations[" + machineAnnotation + "]", id})
	}
	if len(waiters) > 0 && p.oneNode(va.Volume) {
		f.Severity, f.Pods = Error, podNames(waiters)
		f.Message += fmt.Sprintf("; pod %s waits for the volume on node %s", podName(waiters[0]), waiters[0].Spec.NodeName)
	}
	p.Report(f)
}
