package blocked

import (
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var AttachedButNotRecorded = check.Check{
	Code:     "VD405",
	Name:     "attached-but-not-recorded",
	Title:    "An attacher has begun to attach a volume and records neither success nor failure",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	OfDriver: true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD605"}, Match: check.SameDriver},
	},
	Never: "set status.attached by hand: what the driver said of the device would be missing",
	Run:   runAttachedButNotRecorded,
}

// unrecordedGrace is how long an attacher may take to record the outcome of an attach: two calls,
// the first of which may wait in a queue.
const unrecordedGrace = 2 * facts.LongSidecarCall

func runAttachedButNotRecorded(p *check.Run) {
	for _, va := range p.Attachments() {
		if !va.Status.Attached && va.DeletionTimestamp == nil && va.Ours() && p.Age(va.CreationTimestamp) >= unrecordedGrace {
			if pods := mountedThere(p.View, va.VolumeNode); len(pods) > 0 {
				recordedAsDetached(p, va, pods)
				continue
			}
		}
		if va.Status.Attached || va.Status.AttachError != nil || va.DeletionTimestamp != nil || !va.Ours() ||
			!facts.AttacherHolds(va.VolumeAttachment) || va.Annotations[reconcile.NodeIDAnnotation] == "" ||
			p.Age(va.CreationTimestamp) < reconcile.CSITimeout || !p.Lasted(va.CreationTimestamp, unrecordedGrace) {
			continue
		}
		lease := longLeader(p.View, va.Spec.Attacher)
		if lease == nil || mayWaitForDetach(p.View, va) {
			continue // no attacher leads, or it waits for the other node
		}
		if pods := p.WaitingHere(va.VolumeNode); len(pods) > 0 {
			notRecorded(p, va, lease, pods)
		}
	}
}

// longLeader is the lease of the driver's attacher, where its holder renews it and has held it
// long enough to have processed everything.
func longLeader(p *facts.View, driver string) *coordinationv1.Lease {
	lease := p.AttacherLease(driver)
	if lease == nil || lease.Spec.AcquireTime == nil || p.Age(facts.Renewed(lease)) > facts.AttacherLeaseGrace ||
		!p.Lasted(metav1.NewTime(lease.Spec.AcquireTime.Time), unrecordedGrace) {
		return nil
	}
	return lease
}

// mayWaitForDetach reports whether another node has the ReadWriteOnce volume, or is still losing
// it: some drivers hold up the call until then.
func mayWaitForDetach(p *facts.View, va facts.Attachment) bool {
	return p.OneNode(va.Volume) && slices.ContainsFunc(p.AttachmentsOf(va.Volume), func(other facts.Attachment) bool {
		return other.Node != va.Node && (other.Status.Attached || other.DeletionTimestamp != nil)
	})
}

func notRecorded(p *check.Run, va facts.Attachment, lease *coordinationv1.Lease, pods []*corev1.Pod) {
	pv := p.ShortVolumeOf(va)
	p.Report(p.About(va, finding.Finding{
		Subject: facts.PodObject(pods[0]),
		Pods:    facts.PodNames(pods),
		Since:   &va.CreationTimestamp,
		Message: fmt.Sprintf("Pod %s waits on node %s: the attach of volume %s has no result", facts.PodName(pods[0]), va.Node, pv),
		Detail:  finding.Clauses("the attacher has begun it and recorded neither success nor failure", facts.Alike(pods)),
		Cause:   "most likely the attacher may not write the object's status, as after an update with an old ClusterRole; or its call to the driver does not end",
		Evidence: []finding.Evidence{
			{Object: va.Object(), Field: "metadata.finalizers", Value: fmt.Sprint(va.Finalizers)},
			{Object: va.Object(), Field: "metadata.annotations", Value: reconcile.NodeIDAnnotation + ": " + va.Annotations[reconcile.NodeIDAnnotation]},
			{Object: va.Object(), Field: "status", Value: "attached: false, no attachError"},
			facts.LeaseEvidence(lease),
		},
		SelfHeals: finding.SelfHeals{Because: "the attacher may not write the status; the attacher repeats the attach, and succeeds once it may write the status"},
		Advice:    "{read-log controller} for a line of its attacher with \"forbidden\" and \"volumeattachments/status\"; if so, {change} let its ClusterRole patch that",
	}))
}

// mountedThere are the pods on the node that have the volume mounted.
func mountedThere(p *facts.View, pair reconcile.VolumeNode) []*corev1.Pod {
	return slices.DeleteFunc(p.World.LivePods(pair), func(pod *corev1.Pod) bool { return !facts.Mounted(pod) })
}

// recordedAsDetached is about pods that run with a volume whose VolumeAttachment says that it is not
// attached. They got their mount while it was: the kubelet asks for that before each mount, so
// that the next pod waits.
func recordedAsDetached(p *check.Run, va facts.Attachment, pods []*corev1.Pod) {
	f := p.About(va, finding.Finding{
		Severity: finding.Warning,
		Subject:  facts.PodObject(pods[0]),
		Pods:     facts.PodNames(pods),
		Message:  fmt.Sprintf("Pod %s runs on node %s, and by its VolumeAttachment volume %s is not attached", facts.PodName(pods[0]), va.Node, p.ShortVolumeOf(va)),
		Detail:   finding.Clauses("a pod that starts there next waits until the VolumeAttachment says attached", facts.Alike(pods)),
		Cause:    "somebody other than the attacher reset status.attached, or made the VolumeAttachment again, and the attacher has not attached it since",
		Evidence: []finding.Evidence{
			{Object: va.Object(), Field: "status.attached", Value: "false, not being deleted"},
		},
		SelfHeals: finding.SelfHeals{Unknown: true, Because: "the attacher tries again, at most 5m apart, and succeeds once the driver does"},
		Advice:    "{read-log controller} for what its attacher writes about the VolumeAttachment, while the pod still runs",
		Never:     "delete the pod or drain the node before that: its successor may wait for the volume",
	})
	if failed := p.AttachError(va.VolumeAttachment); failed != nil {
		f.Said = &finding.Quote{Text: failed.Message, By: facts.AttacherOf(va.Spec.Attacher), At: &failed.Time}
		f.Evidence = append(f.Evidence, facts.FailedAttach(va.VolumeAttachment, failed))
		f.Advice = "{fix} fix what the driver reports, while the pod still runs"
	}
	p.Report(f.UntilAgain(p.Snapshot.TakenAt, facts.ListsGrace, "the attacher attaches it again just now, as after a re-publish"))
}
