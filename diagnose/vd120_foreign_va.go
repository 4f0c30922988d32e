package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var foreignVA = Check{
	Code:     "VD120",
	Name:     "foreign-va",
	Title:    "A VolumeAttachment does not have the name under which the controller would find it",
	Severity: Info,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runForeignVA,
}

func runForeignVA(p *Pass) {
	waiting := p.waiting()
	for _, va := range p.attachments() {
		if va.DeletionTimestamp != nil || p.Age(va.CreationTimestamp) < listsSettle {
			continue
		}
		switch {
		case va.ours():
			if p.restoredForNoNode(va) {
				p.restored(va)
			}
		case attachmentName(va.VolumeNode) == "" || p.volumeRecreated(va) || p.keepsDeletedVolume(va):
			// A handle that the controller cannot name, and two other failures.
		default:
			p.foreign(va, waiting[va.Volume])
		}
	}
}

// veleroRestore is the label that Velero puts on what it has restored.
const veleroRestore = "velero.io/restore-name"

// restoredForNoNode says that a backup brought the attachment back for a node
// that this cluster does not have; a restored one begins unattached.
func (p *Pass) restoredForNoNode(va attachment) bool {
	return va.Labels[veleroRestore] != "" && !va.Status.Attached && p.Snapshot.Node(va.Node) == nil
}

func (p *Pass) restored(va attachment) {
	f := p.foreignFinding(va)
	f.Severity = Warning
	f.Message = fmt.Sprintf("The VolumeAttachment of volume %s was restored from a backup for node %s, which does not exist: the attacher tries it for ever",
		f.PersistentVolume, va.Node)
	f.Cause = fmt.Sprintf("the restore %q brought it back, though only the controller should make VolumeAttachments", va.Labels[veleroRestore])
	f.SelfHeals.Because = "the controller does not know of it before it starts anew"
	f.Advice = "delete the VolumeAttachment, and leave VolumeAttachments out of restores"
	p.Report(f)
}

func (p *Pass) foreign(va attachment, waiting []*corev1.Pod) {
	f := p.foreignFinding(va)
	owner := ownerOf(va)
	f.Message = fmt.Sprintf("The VolumeAttachment %s of volume %s on node %s is not the controller's, which will never delete it",
		va.Name, f.PersistentVolume, va.Node)
	f.Cause = "another program, or a person, made it"
	if owner != "" {
		f.Message += ": it belongs to " + owner
		f.Cause = owner + " made it, and should delete it"
	}
	f.SelfHeals.Because = "it stays until whoever made it deletes it"
	f.Advice = "find out whose it is; if nobody's, delete it, and leave its finalizer alone"
	users := p.World.LivePods(va.VolumeNode)
	proper := p.Snapshot.VolumeAttachment(attachmentName(va.VolumeNode))
	switch {
	case proper != nil:
		f.Evidence = append(f.Evidence, Evidence{"volumeattachment/" + proper.Name, "metadata.name", "is the controller's for the same volume and node"})
		f.Advice = "do not delete it: the driver would detach the volume under the controller's own VolumeAttachment for the same node; wait until that one is gone"
	case len(users) > 0:
		f.Pods = podNames(users)
		f.Message += fmt.Sprintf("; pod %s on that node uses the volume", podName(users[0]))
		f.Advice = "do not delete it while a pod on the node uses the volume: the driver would detach it"
	}
	if blocked := p.blockedBy(va, waiting); len(blocked) > 0 {
		f.Severity, f.Pods = Error, podNames(blocked)
		pod := blocked[0]
		f.Message = fmt.Sprintf("Pod %s waits on node %s for volume %s, which the VolumeAttachment %s keeps on node %s: it is not the controller's, "+
			"which will never delete it", podName(pod), pod.Spec.NodeName, f.PersistentVolume, va.Name, va.Node)
		if owner != "" {
			f.Message += ", but belongs to " + owner
		}
	}
	p.Report(f)
}

// blockedBy are the pods on other nodes whose own attach fails while this one
// holds the volume. Whoever made it may be at work with it for a while.
func (p *Pass) blockedBy(va attachment, waiting []*corev1.Pod) []*corev1.Pod {
	if !va.holds() || !p.oneNode(va.Volume) || !p.forgotten(va.VolumeNode) {
		return nil
	}
	var blocked []*corev1.Pod
	for _, pod := range elsewhere(waiting, va.Node) {
		own := p.Snapshot.VolumeAttachment(attachmentName(pairOf(va, pod)))
		if own != nil && own.Status.AttachError != nil && p.Age(boundAt(pod)) >= conflictSettles {
			blocked = append(blocked, pod)
		}
	}
	return blocked
}

func (p *Pass) foreignFinding(va attachment) Finding {
	f := Finding{
		Subject:          vaObject(va.VolumeAttachment),
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: volumeName(va.VolumeAttachment),
		VolumeAttachment: va.Name,
		Since:            &va.CreationTimestamp,
		Evidence: []Evidence{
			{va.object(), "metadata.name", "the controller's would be " + attachmentName(va.VolumeNode)},
			{va.object(), "status.attached", fmt.Sprint(va.Status.Attached)},
		},
	}
	if va.ours() {
		f.Evidence[0] = Evidence{va.object(), "metadata.labels", veleroRestore + ": " + va.Labels[veleroRestore]}
	}
	return f
}

// ownerOf says who made the object, as far as it tells.
func ownerOf(va attachment) string {
	if owner := metav1.GetControllerOf(va); owner != nil {
		return owner.Kind + " " + owner.Name
	}
	if len(va.OwnerReferences) > 0 {
		return va.OwnerReferences[0].Kind + " " + va.OwnerReferences[0].Name
	}
	if restore := va.Labels[veleroRestore]; restore != "" {
		return "the Velero restore " + restore
	}
	return va.Labels["app.kubernetes.io/managed-by"]
}
