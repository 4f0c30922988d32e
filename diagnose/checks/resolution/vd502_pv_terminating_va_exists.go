package resolution

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var PvTerminatingVAExists = check.Check{
	Code:        "VD502",
	Name:        "pv-terminating-va-exists",
	Title:       "A persistent volume is being deleted: it cannot go, it is not attached any more, or a pod still runs with it",
	Severity:    finding.Warning,
	Breaks:      check.Holds,
	Needs:       check.AttachmentKinds(snapshot.Leases),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "take finalizers off: the volume may still be attached at the storage",
	Run:         runPVTerminatingVAExists,
}

func runPVTerminatingVAExists(p *check.Run) {
	var vas []facts.Attachment
	for _, va := range p.Attachments() {
		if p.Snapshot.Volume(facts.VolumeName(va.VolumeAttachment)).DeletionTimestamp != nil && va.DeletionTimestamp == nil {
			vas = append(vas, va)
		}
	}
	slices.SortStableFunc(vas, func(a, b facts.Attachment) int { return facts.BoolToInt(b.Ours()) - facts.BoolToInt(a.Ours()) })
	told := map[reconcile.VolumeNode]bool{} // two VolumeAttachments may be for one volume on one node
	for _, va := range vas {
		if told[va.VolumeNode] {
			continue
		}
		pv, pods := p.Snapshot.Volume(facts.VolumeName(va.VolumeAttachment)), p.WaitingHere(va.VolumeNode)
		switch {
		case len(pods) > 0 && refusedForDeletion(p.View, va):
			reportRefused(p, va, pv, pods)
		case len(pods) == 0 && p.KeepsDeletedVolume(va):
			pvTerminating(p, va, pv)
		default:
			continue
		}
		told[va.VolumeNode] = true
	}
	for _, pv := range p.Snapshot.Volumes {
		if goes(pv) && p.Age(*pv.DeletionTimestamp) >= facts.PVDeletionGrace {
			runsWithTerminating(p, pv)
		}
	}
}

// runWith are the pods that run with the volume through a claim that stays.
func runWith(p *facts.View, pv *corev1.PersistentVolume) []*corev1.Pod {
	claim := boundTo(p, pv)
	if claim == nil || claim.DeletionTimestamp != nil || !slices.Contains(pv.Finalizers, volumeProtection) {
		return nil // claim-terminating and claim-gone-under-pod report these
	}
	return slices.DeleteFunc(slices.Clone(p.ClaimUsers(claim)), func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" || !facts.Started(pod)
	})
}

// runsWithTerminating is about pods that run with a volume that is being deleted. It stays as
// long as its claim is bound to it, and attached where it is attached, but is never attached
// again.
func runsWithTerminating(p *check.Run, pv *corev1.PersistentVolume) {
	pods := runWith(p.View, pv)
	if len(pods) == 0 {
		return
	}
	pod := pods[0]
	f := finding.Finding{
		Subject: facts.PvObject(pv), PersistentVolume: pv.Name, Node: types.NodeName(pod.Spec.NodeName), Since: pv.DeletionTimestamp, Pods: facts.PodNames(pods),
		Message:  fmt.Sprintf("Pod %s runs on node %s with volume %s, which is Terminating", facts.PodName(pod), pod.Spec.NodeName, pv.Name),
		Cause:    "the volume was deleted while its claim was in use; a deletion cannot be taken back",
		Evidence: terminating(pv, finding.Evidence{Object: "persistentvolume/" + pv.Name, Field: "spec.persistentVolumeReclaimPolicy", Value: string(pv.Spec.PersistentVolumeReclaimPolicy)}),
	}
	ends := "the pod's successor has the volume while the claim exists"
	if p.NeverAttachedAgain(pv) {
		ends = "once it is detached, no attacher attaches it again"
	}
	f.SelfHeals.Because = ends + "; the volume goes when its claim does"
	if deletes(pv) {
		f.SelfHeals.Because += ", and with the reclaim policy Delete its disk goes with it"
	}
	first, commands := keepDisk(pv)
	f.Advice, f.AdviceCommands = first+"{note} before the pod ends, save its data; "+makeBothAgain, commands
	p.Report(f)
}

// makeBothAgain is how a Terminating volume gets a successor with its disk.
const makeBothAgain = "end the pod, let claim and volume go, and {final} recreate both with the same volume handle"

// volumeProtection is the finalizer that the PV protection controller removes once the volume is
// not Bound (Controller.isBeingUsed, pkg/controller/volume/pvprotection).
const volumeProtection = "kubernetes.io/pv-protection"

// refusedForDeletion reports whether the attacher refuses the volume because it is being deleted.
// That needs no grace: no deletion is taken back.
func refusedForDeletion(p *facts.View, va facts.Attachment) bool {
	failure := p.AttachError(va.VolumeAttachment)
	return failure != nil && !va.Status.Attached && facts.ContainsAny(failure.Message, "is marked for deletion")
}

func pvTerminating(p *check.Run, va facts.Attachment, pv *corev1.PersistentVolume) {
	f := pvDeletionFinding(p.View, va, pv)
	f.Message = fmt.Sprintf("Volume %s is stuck in Terminating: a VolumeAttachment on node %s names it", pv.Name, va.Node)
	f.Detail = "no pod uses it on that node"
	f.Cause = "the volume was deleted while an attach for it was failing, and the controller has lost sight of the VolumeAttachment"
	f.SelfHeals.Because = "nobody deletes the VolumeAttachment; the attacher's finalizer keeps the volume until none names it"
	f.ByHand = "{final} delete the VolumeAttachment: the driver detaches what may be attached"
	if !va.Ours() {
		// Another program may be using it.
		f.Severity = finding.Info
		f.Cause = "the VolumeAttachment is not the controller's: another program, such as a backup, made it"
		f.SelfHeals.Because = "whoever made the VolumeAttachment has to delete it; the controller never does"
		f.ByHand, f.Advice = "", "find out which program made the VolumeAttachment, and {final} end what it does with the volume"
	}
	keepDiskFirst(&f, pv)
	p.Report(f)
}

func reportRefused(p *check.Run, va facts.Attachment, pv *corev1.PersistentVolume, pods []*corev1.Pod) {
	f := pvDeletionFinding(p.View, va, pv)
	f.Severity, f.Pods = finding.Error, facts.PodNames(pods)
	f.Message = fmt.Sprintf("Pod %s waits on node %s for volume %s, which is being deleted", facts.PodName(pods[0]), va.Node, pv.Name)
	f.Detail = finding.Clauses("the attacher does not attach such a volume", facts.Alike(pods))
	f.Cause = "the volume was deleted while its claim was in use; a deletion cannot be taken back"
	f.SelfHeals.Because = "the volume stays marked for deletion; it goes with its claim"
	first, commands := keepDisk(pv)
	f.Advice, f.AdviceCommands = first+makeBothAgain, commands
	f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "status.attachError", Value: va.Status.AttachError.Message})
	p.Report(f)
}

func pvDeletionFinding(p *facts.View, va facts.Attachment, pv *corev1.PersistentVolume) finding.Finding {
	return p.About(va, finding.Finding{
		Subject:          facts.PvObject(pv),
		PersistentVolume: pv.Name,
		Since:            pv.DeletionTimestamp,
		Evidence:         terminating(pv, finding.Evidence{Object: va.Object(), Field: "status.attached", Value: fmt.Sprintf("%t, not being deleted", va.Status.Attached)}),
	})
}

// terminating is the evidence that the volume is Terminating, with more.
func terminating(pv *corev1.PersistentVolume, more ...finding.Evidence) []finding.Evidence {
	return append([]finding.Evidence{
		{Object: "persistentvolume/" + pv.Name, Field: "metadata.deletionTimestamp", Value: facts.Stamp(*pv.DeletionTimestamp)},
		{Object: "persistentvolume/" + pv.Name, Field: "metadata.finalizers", Value: fmt.Sprint(pv.Finalizers)},
	}, more...)
}
