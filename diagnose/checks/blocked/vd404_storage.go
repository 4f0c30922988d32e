package blocked

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// heldAtStorage reports attachments in the storage systems' lists that no object of the cluster
// shows. It returns the names of the VolumeAttachments that they explain, whatever the driver
// says.
func heldAtStorage(p *check.Run, truth *storage.Truth) sets.Set[string] {
	explained := sets.New[string]()
	if truth == nil {
		return explained
	}
	waiting := sets.New[corev1.UniqueVolumeName]()
	for _, va := range p.Attachments() {
		pods := p.WaitingHere(va.VolumeNode)
		if len(pods) == 0 || va.Status.Attached {
			continue
		}
		waiting.Insert(va.Volume)
		if entry := truth.Volume(va.Volume); entry != nil && keptElsewhere(p, va, entry) {
			explained.Insert(va.Name)
			reportKept(p, va, pods, entry)
		}
	}
	for _, pv := range p.Snapshot.Volumes {
		name, err := p.World.VolumeName(pv)
		if err != nil || waiting.Has(name) || len(p.Waiting()[name]) > 0 {
			continue
		}
		if entry := truth.Volume(name); entry != nil && entry.Settled {
			for _, h := range entry.Holders {
				if h.Node != nil && leftBehind(p.View, name, h, entry) {
					reportLeft(p, pv, name, h, entry)
				}
			}
		}
	}
	return explained
}

// keptElsewhere reports whether the list explains the failing attach: one machine has the
// ReadWriteOnce volume, and the cluster let go of it before the list was taken. The controller
// creates a VolumeAttachment for another node only after that.
func keptElsewhere(p *check.Run, va facts.Attachment, entry *storage.Entry) bool {
	if va.DeletionTimestamp != nil || !va.Ours() || !p.OneNode(va.Volume) || entry.Volume.Shared || !entry.Settled || len(entry.Holders) != 1 ||
		!entry.Saw(va.CreationTimestamp, facts.AttacherMaxBackoff) || len(p.AttachmentsOf(va.Volume)) > 1 || p.UsedElsewhere(va.VolumeNode) {
		return false
	}
	if named := va.Spec.Source.PersistentVolumeName; named != nil && len(p.AttachmentsNaming(*named)) > 1 {
		return false
	}
	_, detached := entry.On(va.Node)
	h := entry.Holders[0]
	return detached && h.Known && (h.Node == nil || unrecorded(p.View, va.Volume, h.Node))
}

func reportKept(p *check.Run, va facts.Attachment, pods []*corev1.Pod, entry *storage.Entry) {
	f, h := orphanFinding(p, va, pods, entry), entry.Holders[0]
	where, known := "machine "+h.Machine, "which is no node of this cluster"
	f.Cause = "another cluster or a person uses the volume; or the machine was a node, and its VolumeAttachment went without a detach"
	f.Advice = fmt.Sprintf("{check} find out what %s is, and whether anything there uses the volume; only then {final} detach it at the storage system: the attach follows within about 7 min", h.Machine)
	if h.Node != nil {
		where, known = "node "+h.Node.Name, "where the cluster has no record of it"
		f.Cause = "the VolumeAttachment of that node went without a detach: its finalizer was taken off; or somebody else attached the volume"
		f.Evidence = append(f.Evidence, noRecord(h.Node)...)
		f.Advice = fmt.Sprintf("{check} check on node %s that nothing has the volume mounted", h.Node.Name)
		f.ByHand = "{final} detach it at the storage system: the attach follows within about 7 min"
		// A list alone never justifies a write: the driver has to confirm it.
		if failure := p.AttachError(va.VolumeAttachment); failure != nil && facts.HeldElsewhere(va.Spec.Attacher, failure.Message) {
			f.Holder = facts.NodeName(h.Node)
		}
	}
	f.Message = fmt.Sprintf("Pod %s waits on node %s: %s has volume %s", facts.PodName(pods[0]), va.Node, where, f.PersistentVolume)
	f.Detail = finding.Clauses(fmt.Sprintf("%s shows it attached to %s, %s", entry.Words(), where, known), facts.Alike(pods))
	p.Report(f)
}

// leftBehind reports whether a node has the volume without any record in the cluster, and no
// detach that ended after the list was taken explains it: the controller writes the node's list
// before it detaches.
func leftBehind(p *facts.View, volume corev1.UniqueVolumeName, h storage.Holder, entry *storage.Entry) bool {
	writer, written := facts.VolumesAttachedWriter(h.Node)
	driver, _, _ := reconcile.ParseCSI(volume)
	return facts.MayBeController(writer) && entry.Saw(written, detachMayTake) && h.Since != nil && entry.List.Taken.Sub(*h.Since) >= detachMayTake &&
		p.AttachRequired(driver) && reconcile.NodeReady(h.Node) && unrecorded(p, volume, h.Node) && len(p.AttachmentsOf(volume)) == 0 &&
		p.World.Desired.Find(reconcile.VolumeNode{Volume: volume, Node: facts.NodeName(h.Node)}) == nil && !p.ControllerJustStarted()
}

func reportLeft(p *check.Run, pv *corev1.PersistentVolume, volume corev1.UniqueVolumeName, h storage.Holder, entry *storage.Entry) {
	p.Report(finding.Finding{
		Severity:         finding.Warning,
		Subject:          facts.PvObject(pv),
		Volume:           volume,
		Node:             facts.NodeName(h.Node),
		PersistentVolume: pv.Name,
		Message:          fmt.Sprintf("Volume %s is attached to node %s, and the cluster has no record of it", pv.Name, h.Node.Name),
		Detail:           entry.Words() + " shows it there; nobody wants it, and nobody will detach it",
		Cause:            "the VolumeAttachment of that node went without a detach: its finalizer was taken off; or somebody else attached the volume",
		Evidence:         append([]finding.Evidence{entry.Evidence()}, noRecord(h.Node)...),
		SelfHeals:        finding.SelfHeals{Because: "no object asks the driver to detach the volume there"},
		Advice:           fmt.Sprintf("{check} check on node %s that nothing has the volume mounted, and whose it is", h.Node.Name),
		ByHand:           "{final} detach it at the storage system",
	})
}
