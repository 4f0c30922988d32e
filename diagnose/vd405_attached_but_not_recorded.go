package diagnose

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var attachedButNotRecorded = Check{
	Code:     "VD405",
	Name:     "attached-but-not-recorded",
	Title:    "An attacher has begun to attach a volume and records neither success nor failure",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runAttachedButNotRecorded,
}

// unrecordedSettles is how long an attacher may take to write down how an attach
// went. A call ends after 15 s, in the manifests of some drivers after 5 min;
// twice that leaves room for a queue.
const unrecordedSettles = 10 * time.Minute

func runAttachedButNotRecorded(p *Pass) {
	for _, va := range p.attachments() {
		if va.Status.Attached || va.Status.AttachError != nil || va.DeletionTimestamp != nil || !va.ours() ||
			!attacherHolds(va.VolumeAttachment) || va.Annotations[nodeIDAnnotation] == "" || p.Age(va.CreationTimestamp) < unrecordedSettles {
			continue
		}
		lease := p.longLeader(va.Spec.Attacher)
		if lease == nil || p.mayWaitForDetach(va) {
			continue // whether it lives is another question
		}
		if pods := p.waitingHere(va.VolumeNode); len(pods) > 0 {
			p.notRecorded(va, lease, pods)
		}
	}
}

// longLeader is the lease of the driver's attacher if it is renewed by one that
// has held it long enough to have come to everything.
func (p *Pass) longLeader(driver string) *coordinationv1.Lease {
	lease := p.attacherLease(driver)
	if lease == nil || lease.Spec.AcquireTime == nil || p.Age(renewed(lease)) > leaseSettles ||
		p.Age(metav1.NewTime(lease.Spec.AcquireTime.Time)) < unrecordedSettles {
		return nil
	}
	return lease
}

// mayWaitForDetach says that another node has the volume, which is for one node
// at a time, or has it still: some drivers hold the call up for that.
func (p *Pass) mayWaitForDetach(va attachment) bool {
	return p.oneNode(va.Volume) && slices.ContainsFunc(p.attachmentsOf(va.Volume), func(other attachment) bool {
		return other.Node != va.Node && (other.Status.Attached || other.DeletionTimestamp != nil)
	})
}

func (p *Pass) notRecorded(va attachment, lease *coordinationv1.Lease, pods []*corev1.Pod) {
	pv := p.shortVolume(va.Volume)
	p.Report(Finding{
		Subject:          podObject(pods[0]),
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Pods:             podNames(pods),
		Since:            &va.CreationTimestamp,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s: the attacher has begun to attach it and for %s has recorded neither success nor failure%s",
			podName(pods[0]), va.Node, pv, rounded(p.Age(va.CreationTimestamp)), alike(pods)),
		Cause: "most likely the attacher may not write the object's status, as after an update with an old ClusterRole; or its call to the driver does not end",
		Evidence: []Evidence{
			{va.object(), "metadata.finalizers", fmt.Sprint(va.Finalizers)},
			{va.object(), "metadata.annotations", nodeIDAnnotation + ": " + va.Annotations[nodeIDAnnotation]},
			{va.object(), "status", "attached: false, no attachError"},
			leaseEvidence(lease),
		},
		SelfHeals: SelfHeals{Because: "the attacher repeats the attach and fails at the same point; once it may write the status the next attempt succeeds"},
		Advice: "look for \"cannot patch resource volumeattachments/status\" in the attacher's log, and give its ClusterRole the verb patch on that " +
			"subresource; do not set status.attached by hand: what the driver said of the device would be missing",
	})
}
