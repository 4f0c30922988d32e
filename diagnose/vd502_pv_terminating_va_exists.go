package diagnose

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var pvTerminatingVAExists = Check{
	Code:     "VD502",
	Name:     "pv-terminating-va-exists",
	Title:    "A persistent volume is being deleted and cannot go, or cannot be attached, because of a VolumeAttachment",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runPVTerminatingVAExists,
}

// pvDeletionSettles is how long a volume may be on its way out: the driver
// deletes the disk first, and the detach before that may take minutes.
const pvDeletionSettles = 5 * time.Minute

func runPVTerminatingVAExists(p *Pass) {
	for _, va := range p.attachments() {
		pv := p.Snapshot.Volume(volumeName(va.VolumeAttachment))
		if pv.DeletionTimestamp == nil || p.Age(*pv.DeletionTimestamp) < pvDeletionSettles || va.DeletionTimestamp != nil {
			continue
		}
		if pods := p.waitingHere(va.VolumeNode); len(pods) > 0 {
			if refusedForDeletion(va) {
				p.refusedForDeletion(va, pv, pods)
			}
			continue
		}
		if p.keepsDeletedVolume(va) {
			p.pvTerminating(va, pv)
		}
	}
}

// refusedForDeletion says that the attacher will not attach a volume that is
// being deleted.
func refusedForDeletion(va attachment) bool {
	return va.Status.AttachError != nil && !va.Status.Attached && containsAny(va.Status.AttachError.Message, "is marked for deletion")
}

// keepsDeletedVolume says that nobody uses the attachment or will delete it,
// though its volume is to go. One of the controller's own that is attached is
// dangling-after-kcm-restart.
func (p *Pass) keepsDeletedVolume(va attachment) bool {
	pv := p.Snapshot.Volume(volumeName(va.VolumeAttachment))
	return pv != nil && pv.DeletionTimestamp != nil && p.Age(*pv.DeletionTimestamp) >= pvDeletionSettles &&
		!p.controllerYounger(danglingSettles) && p.Age(va.CreationTimestamp) >= danglingSettles && va.DeletionTimestamp == nil &&
		(!va.ours() || !va.holds()) && p.World.Managed.Has(va.Node) && reconcile.NodeReady(p.Snapshot.Node(va.Node)) && p.forgotten(va.VolumeNode)
}

func (p *Pass) pvTerminating(va attachment, pv *corev1.PersistentVolume) {
	f := p.pvDeletionFinding(va, pv)
	f.Message = fmt.Sprintf("Volume %s has been on its way out for %s and cannot go: a VolumeAttachment on node %s, where no pod uses it, still names it",
		pv.Name, rounded(p.Age(*pv.DeletionTimestamp)), va.Node)
	f.Cause = "the volume was deleted while an attach for it was failing, and the controller has lost sight of the VolumeAttachment"
	f.SelfHeals.Because = "the attacher's finalizer keeps the volume until no VolumeAttachment names it, and nobody deletes this one"
	f.Advice = "delete the VolumeAttachment and leave all finalizers alone: the driver detaches what may be attached, and the volume then goes by itself"
	if !va.ours() {
		// Another program may be at work with it; that is its own affair.
		f.Severity = Info
		f.Cause = "the VolumeAttachment is not the controller's: another program, such as a backup, made it"
		f.SelfHeals.Because = "the volume goes once the program that made the VolumeAttachment deletes it; the controller never does"
		f.Advice = "find out whose the VolumeAttachment is and have its owner delete it; leave all finalizers alone"
	}
	p.Report(f)
}

func (p *Pass) refusedForDeletion(va attachment, pv *corev1.PersistentVolume, pods []*corev1.Pod) {
	f := p.pvDeletionFinding(va, pv)
	f.Severity, f.Pods = Error, podNames(pods)
	f.Message = fmt.Sprintf("Pod %s waits on node %s for volume %s, which is being deleted: the attacher does not attach such a volume%s",
		podName(pods[0]), va.Node, pv.Name, alike(pods))
	f.Cause = "the volume was deleted while its claim was in use; a deletion cannot be taken back"
	f.SelfHeals.Because = "the volume stays marked for deletion until its claim is gone, and then it goes"
	f.Advice = fmt.Sprintf("save the data before anything else: kubectl patch pv %s -p '{\"spec\":{\"persistentVolumeReclaimPolicy\":\"Retain\"}}' keeps the disk; "+
		"then end the pod, let claim and volume go, and make both anew with the same volume handle", pv.Name)
	f.Evidence = append(f.Evidence, Evidence{va.object(), "status.attachError", va.Status.AttachError.Message})
	p.Report(f)
}

func (p *Pass) pvDeletionFinding(va attachment, pv *corev1.PersistentVolume) Finding {
	return Finding{
		Subject:          pvObject(pv),
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: pv.Name,
		VolumeAttachment: va.Name,
		Since:            pv.DeletionTimestamp,
		Evidence: []Evidence{
			{"persistentvolume/" + pv.Name, "metadata.deletionTimestamp", stamp(*pv.DeletionTimestamp)},
			{"persistentvolume/" + pv.Name, "metadata.finalizers", fmt.Sprint(pv.Finalizers)},
			{va.object(), "status.attached", fmt.Sprintf("%t, not being deleted", va.Status.Attached)},
		},
	}
}
