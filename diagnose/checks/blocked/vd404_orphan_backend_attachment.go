package blocked

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var OrphanBackendAttachment = check.Check{
	Code:        "VD404",
	Name:        "orphan-backend-attachment",
	Title:       "The storage system has a volume attached to a node for which there is no VolumeAttachment",
	Severity:    finding.Error,
	Needs:       check.AttachmentKinds(snapshot.CSINodes),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "take finalizers off or detach by force while that machine may write",
	Run:         runOrphanBackendAttachment,
}

const (
	// orphanGrace is how long an attach must have failed: by then the attacher has tried several
	// times at its longest back-off.
	orphanGrace = 3 * facts.AttacherMaxBackoff
	// detachMayTake is how long after the last write of the other node's list an ordinary detach
	// may still explain the refusal. A longer detach is a failure of its own.
	detachMayTake = facts.StuckDeleting
)

func runOrphanBackendAttachment(p *check.Run) {
	truth := storage.Of(p.View)
	known := heldAtStorage(p, truth)
	for _, va := range p.Attachments() {
		if known.Has(va.Name) {
			continue
		}
		failure := p.AttachError(va.VolumeAttachment)
		if va.Status.Attached || va.DeletionTimestamp != nil || !va.Ours() || !p.StillRefused(failure) || !facts.HeldElsewhere(va.Spec.Attacher, failure.Message) ||
			!p.Lasted(va.CreationTimestamp, orphanGrace) {
			continue
		}
		pods := p.WaitingHere(va.VolumeNode)
		holder := p.NamedNode(va, failure.Message)
		switch {
		case len(pods) == 0:
		case holder == nil:
			if heldOutside(p.View, va) {
				orphanElsewhere(p, va, pods, truth.Volume(va.Volume))
			}
		case unrecorded(p.View, va.Volume, holder) && !mayBeDetaching(p.View, va, holder):
			orphan(p, va, holder, pods, truth.Volume(va.Volume))
		}
	}
}

// mayBeDetaching reports whether the refusal may be from before the end of an ordinary detach. A
// ReadWriteOnce volume has a VolumeAttachment only after the controller has let go of the other
// node.
func mayBeDetaching(p *facts.View, va facts.Attachment, holder *corev1.Node) bool {
	_, written := facts.VolumesAttachedWriter(holder)
	return !p.OneNode(va.Volume) && !written.IsZero() && va.Status.AttachError.Time.Sub(written.Time) < detachMayTake
}

// heldOutside reports whether the message can only be about a machine outside the cluster: no
// other node has an attachment of the volume, wants it or reports it, and the message does not
// merely repeat the pod's own node.
func heldOutside(p *facts.View, va facts.Attachment) bool {
	message, named := va.Status.AttachError.Message, va.Spec.Source.PersistentVolumeName
	if !p.OneNode(va.Volume) || len(p.AttachmentsOf(va.Volume)) > 1 || named != nil && len(p.AttachmentsNaming(*named)) > 1 ||
		p.UsedElsewhere(va.VolumeNode) {
		return false
	}
	return p.ForeignHolder(message) != "" ||
		facts.HeldElsewhere(va.Spec.Attacher, message) && !p.Names(va, message)
}

// orphanElsewhere reports a volume on a machine that is no node, or that the driver does not
// name.
func orphanElsewhere(p *check.Run, va facts.Attachment, pods []*corev1.Pod, entry *storage.Entry) {
	f := orphanFinding(p, va, pods, entry)
	f.Severity = finding.Warning
	f.Message = fmt.Sprintf("Pod %s waits on node %s: another machine has volume %s", facts.PodName(pods[0]), va.Node, f.PersistentVolume)
	f.Detail = finding.Clauses("the driver does not say which; no node of the cluster has it", facts.Alike(pods))
	f.Cause = "an earlier VolumeAttachment went without a detach, perhaps with its node; or another cluster or a person uses the volume"
	f.Advice = "{check} find out at the storage system which machine has the volume, and whether anything there uses it; {do} {final} detach it there only if nothing does: the attach follows within about 7 min"
	if machine := p.ForeignHolder(va.Status.AttachError.Message); machine != "" {
		f.Message = fmt.Sprintf("Pod %s waits on node %s: machine %s has volume %s", facts.PodName(pods[0]), va.Node, machine, f.PersistentVolume)
		f.Detail = finding.Clauses(machine+" is no node of this cluster", facts.Alike(pods))
		f.Cause = "another cluster or a person uses the volume; or the machine was a node, and its VolumeAttachment went without a detach"
		f.Advice = fmt.Sprintf("{check} find out what %s is, and whether anything there uses the volume; {do} {final} detach it at the storage system only if nothing does: the attach follows within about 7 min", machine)
	}
	suspectUntilRefusedAlone(p, va, &f)
	p.Report(f)
}

// suspectUntilRefusedAlone makes the finding suspected: refusals from before a detach that has
// just succeeded stay on record until the attacher's next attempt.
func suspectUntilRefusedAlone(p *check.Run, va facts.Attachment, f *finding.Finding) {
	if f.Follow == 0 {
		return
	}
	failure := va.Status.AttachError
	by := asksAgainBy(p.View, failure)
	begins := p.Snapshot.TakenAt
	if p.Snapshot.Followed != nil {
		begins = failure.Time.Time
	}
	f.Settles = &finding.Settles{
		At: metav1.NewTime(begins.Add(facts.FollowFor)),
		If: "--watch, or --for=" + facts.Rounded(facts.FollowFor) + ", sees the driver refuse it twice more",
	}
	p.Suspect(f, f.Settles.Until(), "it has been detached since "+facts.Stamp(failure.Time))
	f.SelfHeals.Because = fmt.Sprintf("no object asks for the detach; the attacher asks again by %s, and succeeds only if the volume is detached", facts.Stamp(by))
	if p.Age(va.CreationTimestamp) > orphanGrace { // it was refused again and again, and the advice is only a look
		if f.ByHand != "" {
			f.Advice += "; only then {final} detach it at the storage system"
		}
		return
	}
	f.Advice = fmt.Sprintf("{wait} for the attacher, which asks again by %s; {if if it is refused then,} %s", facts.Stamp(by), f.Advice)
}

// orphanFinding is the common part of the findings about a volume that is attached elsewhere.
func orphanFinding(p *check.Run, va facts.Attachment, pods []*corev1.Pod, entry *storage.Entry) finding.Finding {
	f := p.About(va, finding.Finding{
		Subject:   facts.PodObject(pods[0]),
		Pods:      facts.PodNames(pods),
		Since:     &va.CreationTimestamp,
		SelfHeals: finding.SelfHeals{Because: "no object asks the driver to detach it; the attacher repeats the attach, and is refused"},
	})
	if len(p.AttachmentsOf(va.Volume)) > 1 || !p.RefusedAlone(va) {
		f.Follow = facts.FollowFor
	}
	if failure := p.AttachError(va.VolumeAttachment); failure != nil {
		f.Said = p.QuoteAttach(va.Spec.Attacher, failure, pods)
		f.Evidence = append(f.Evidence, facts.FailedAttach(va.VolumeAttachment, failure))
	}
	if entry != nil {
		f.Evidence = append(f.Evidence, entry.Evidence())
	}
	return f
}

// unrecorded reports whether no object shows the volume on the node. A volume that the node still
// uses was detached under a mount, which is worse.
func unrecorded(p *facts.View, volume corev1.UniqueVolumeName, node *corev1.Node) bool {
	pair := reconcile.VolumeNode{Volume: volume, Node: facts.NodeName(node)}
	return len(p.World.Attachments(pair)) == 0 && p.Snapshot.VolumeAttachment(facts.AttachmentName(pair)) == nil &&
		!p.InUse(node, volume) && !p.Lists(node, volume) && len(p.World.LivePods(pair)) == 0
}

func orphan(p *check.Run, va facts.Attachment, holder *corev1.Node, pods []*corev1.Pod, entry *storage.Entry) {
	f := orphanFinding(p, va, pods, entry)
	f.Holder = facts.NodeName(holder)
	f.Message = fmt.Sprintf("Pod %s waits on node %s: node %s has volume %s", facts.PodName(pods[0]), va.Node, holder.Name, f.PersistentVolume)
	f.Detail = finding.Clauses("the cluster has no record of it there", facts.Alike(pods))
	f.Cause = "the VolumeAttachment of that node went without a detach: its finalizer was taken off, or it was deleted before the attacher had put one on; " +
		"or somebody else attached the volume"
	f.Evidence = append(f.Evidence, noRecord(holder)...)
	look := "{check} check at the storage system that the volume is attached to node " + holder.Name
	if failure := p.AttachError(va.VolumeAttachment); failure != nil {
		own, _, _ := strings.Cut(facts.OwnCheck(va.Spec.Attacher, failure.Message), ";")
		look = cmp.Or(own, look)
	}
	f.Advice = fmt.Sprintf("%s; {check} check on node %s that nothing has it mounted", look, holder.Name)
	f.ByHand = "{final} detach it at the storage system: the attach follows within about 7 min"
	suspectUntilRefusedAlone(p, va, &f)
	p.Report(f)
}

// noRecord is the evidence that no object shows the volume on the node.
func noRecord(holder *corev1.Node) []finding.Evidence {
	return []finding.Evidence{
		{Object: "node/" + holder.Name, Field: "volumeattachments", Value: "none for the volume"},
		{Object: "node/" + holder.Name, Field: "status.volumesInUse", Value: "lacks it; lists " + facts.List(holder.Status.VolumesInUse)},
		{Object: "node/" + holder.Name, Field: "status.volumesAttached", Value: "lacks it; lists " + facts.AttachedList(holder.Status.VolumesAttached)},
	}
}

// asksAgainBy is when the attacher will have made its next attempt after the error.
func asksAgainBy(v *facts.View, e *storagev1.VolumeError) metav1.Time {
	by := metav1.NewTime(e.Time.Add(facts.AttacherMaxBackoff))
	if by.Before(&metav1.Time{Time: v.Snapshot.TakenAt}) {
		by = metav1.NewTime(e.Time.Add(facts.AttacherRetries))
	}
	return by
}
