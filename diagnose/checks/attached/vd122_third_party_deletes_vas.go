package attached

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// ThirdPartyDeletesVAs recognises a VolumeAttachment that was deleted under a running pod by the
// age of its successor. Who deletes them shows only over time.
var ThirdPartyDeletesVAs = check.Check{
	Code:     "VD122",
	Name:     "third-party-deletes-vas",
	Title:    "Another program deletes VolumeAttachments while the controller works on them",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(),
	Follows: []check.Relation{
		{From: []finding.Code{"VD106"}, Match: detachedByNewLeader},
		{From: []finding.Code{"VD505"}, Match: ofOneDisk},
	},
	Never: "delete VolumeAttachments: that detaches the volume, mounted or not",
	Run:   runThirdPartyDeletesVAs,
}

// ofOneDisk reports whether both findings are about one disk: while it has two volumes, a pod that
// is deleted may lose it to a pod of the other one.
func ofOneDisk(_ *facts.View, cause, effect finding.Finding) bool {
	return cause.Volume != "" && cause.Volume == effect.Volume
}

func runThirdPartyDeletesVAs(p *check.Run) {
	for _, va := range p.Attachments() {
		if !va.Ours() || va.CreationTimestamp.IsZero() || !movesByAttacher(p.View, va.Volume) ||
			!slices.ContainsFunc(va.Finalizers, func(f string) bool { return strings.HasPrefix(f, reconcile.AttacherFinalizerPrefix) }) {
			continue // without the attacher's finalizer the driver was never asked to detach
		}
		if runner := p.TakenFrom(va); runner != nil {
			beingDetached(p, va, runner)
		} else if runner := p.RunsSinceBefore(va.VolumeNode, va.CreationTimestamp); runner != nil && va.Holds() {
			attachedAgain(p, va, runner)
		}
	}
	for _, row := range p.World.Desired.Items() {
		driver, _, _ := reconcile.ParseCSI(row.Volume)
		if len(p.World.Attachments(row.VolumeNode)) == 0 && p.Snapshot.CSIDriver(driver) != nil && p.AttachRequired(driver) && movesByAttacher(p.View, row.Volume) {
			detached(p, row.VolumeNode)
		}
	}
}

// movesByAttacher reports whether an attacher has always attached the volume. One that has moved
// to CSI was attached without a VolumeAttachment before.
func movesByAttacher(p *facts.View, volume corev1.UniqueVolumeName) bool {
	_, _, ok := reconcile.ParseCSI(volume)
	pv := p.World.Volume(volume)
	return ok && pv != nil && pv.Spec.CSI != nil
}

const lostDevice = "the pod keeps the lost device mounted; its reads and writes may fail"

// beingDetached reports a volume that is being detached under a running container.
func beingDetached(p *check.Run, va facts.Attachment, runner *facts.Runner) {
	f := taken(p, va.VolumeNode, runner)
	f.Since, f.VolumeAttachment = va.DeletionTimestamp, va.Name
	f.Message = fmt.Sprintf("Volume %s is being detached from under running pod %s on node %s", f.PersistentVolume, facts.PodName(runner.Pod), va.Node)
	f.Detail = "its VolumeAttachment is being deleted, and the pod is not"
	f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "metadata.deletionTimestamp", Value: facts.Stamp(*va.DeletionTimestamp)})
	f.SelfHeals.Because = "the attacher does not ask whether it is mounted; the controller then attaches it again, and " + lostDevice
	if failure := p.DetachError(va.VolumeAttachment); failure != nil {
		facts.Also(&f, "the driver has failed to detach it so far, and the pod loses it once that succeeds")
		f.Said = facts.QuoteDriver(va.Spec.Attacher, failure)
		f.Evidence = append(f.Evidence, facts.FailedDetach(va.VolumeAttachment, failure))
	}
	p.Report(f)
}

// detached reports a volume that a container uses without a VolumeAttachment.
func detached(p *check.Run, pair reconcile.VolumeNode) {
	node, now := p.Snapshot.Node(pair.Node), metav1.NewTime(p.Snapshot.TakenAt)
	runner := p.RunsSinceBefore(pair, now)
	if runner == nil || !p.World.Managed.Has(pair.Node) || !p.PodsKnown(node, runner.Started) || node.CreationTimestamp.After(runner.Started.Time) {
		return
	}
	if facts.Lists(node, pair.Volume) || len(p.AttachmentsOf(pair.Volume)) > 0 {
		return // VD302 says more where the node still lists it, and VD205 where another node has it
	}
	f := taken(p, pair, runner)
	f.Message = fmt.Sprintf("Volume %s lost its VolumeAttachment under running pod %s on node %s", f.PersistentVolume, facts.PodName(runner.Pod), pair.Node)
	f.Detail = "its attacher lets one go only after the detach; where somebody stripped the finalizer, the disk may still be attached"
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "volumeattachment/" + facts.AttachmentName(pair), Field: "metadata.name", Value: "there is no such object, though the pod runs with the volume"})
	f.SelfHeals.Because = lostDevice + "; the controller attaches the volume again"
	p.Report(f)
}

// taken is the common part of the findings about a detached volume.
func taken(p *check.Run, pair reconcile.VolumeNode, runner *facts.Runner) finding.Finding {
	pod := facts.PodName(runner.Pod)
	return finding.Finding{
		Severity: finding.Error, Subject: facts.PodObject(runner.Pod), Pods: []string{pod},
		Volume: pair.Volume, Node: pair.Node, PersistentVolume: p.ShortVolume(pair.Volume),
		Cause: "somebody deleted the VolumeAttachment: a script, a fencing operator, or a person; the controller does not while a pod wants the volume",
		Evidence: []finding.Evidence{
			{Object: "pod/" + pod, Field: "status.containerStatuses", Value: fmt.Sprintf("container %s runs since %s", runner.Container, facts.Stamp(runner.Started))},
		},
		Advice: fmt.Sprintf("{delete-pod %s}, and look at the kernel log of node %s and at the volume's file system; "+
			"{check} find out in the API server's audit log who deleted the VolumeAttachment", pod, pair.Node),
	}
}

func attachedAgain(p *check.Run, va facts.Attachment, runner *facts.Runner) {
	pod, container, started := runner.Pod, runner.Container, runner.Started
	pv, node := p.ShortVolumeOf(va), p.Snapshot.Node(va.Node)
	f := p.About(va, finding.Finding{
		Subject: facts.PodObject(pod), Pods: []string{facts.PodName(pod)}, Since: &va.CreationTimestamp,
		Message: fmt.Sprintf("Volume %s was detached and attached again under running pod %s on node %s", pv, facts.PodName(pod), va.Node),
		Detail:  "its VolumeAttachment is younger than container " + container,
		Cause:   "somebody deleted the VolumeAttachment while the pod ran, and the controller made it again: a script, a fencing operator, or a person",
		Evidence: []finding.Evidence{
			{Object: va.Object(), Field: "metadata.creationTimestamp", Value: facts.Stamp(va.CreationTimestamp)},
			{Object: "pod/" + facts.PodName(pod), Field: "status.containerStatuses", Value: fmt.Sprintf("container %s runs since %s", container, facts.Stamp(started))},
		},
		SelfHeals: finding.SelfHeals{Because: lostDevice},
	})
	deleted := "the VolumeAttachment"
	if node != nil && p.StartedBefore(va.Node, started, node.CreationTimestamp) {
		deleted = "node " + node.Name
		f.Cause = fmt.Sprintf("node %s was deleted while the pod ran, by a script, a cloud provider or a person: the controller detached its volumes, and attached them again once the node was there again", node.Name)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "metadata.creationTimestamp", Value: facts.Stamp(node.CreationTimestamp)})
	}
	look := fmt.Sprintf("{check} find out in the API server's audit log who deleted %s", deleted)
	restart := fmt.Sprintf("{delete-pod %s}, and look at the kernel log of node %s and at the volume's file system", facts.PodName(pod), va.Node)
	f.Advice = restart + "; " + look
	heard := func() bool {
		return reconcile.NodeReady(node) && facts.ReadyCondition(node).LastHeartbeatTime.After(va.CreationTimestamp.Time)
	}
	if !p.PodsKnown(node, va.CreationTimestamp) || !p.Snapshot.CompleteIn(snapshot.Leases, corev1.NamespaceNodeLease) && !heard() {
		p.Suspect(&f, fmt.Sprintf("where container %s still runs once the kubelet of node %s has been at work for %s", container, va.Node, facts.Rounded(facts.PodsReported)),
			"the machine has been off since, and the container has ended: its kubelet has not said so yet")
		f.SelfHeals.Unknown, f.SelfHeals.Because = true, "a container that starts again gets a new mount; where it runs on, "+f.SelfHeals.Because
		f.Advice = look + "; {later} where the container runs on, " + restart
		if node != nil {
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "status.conditions[Ready]", Value: facts.ReadyText(node)})
		}
	}
	p.Report(f)
}
