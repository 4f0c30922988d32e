package facts

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// ReusedWhileDetaching are the pods that wait on the node itself for a detach
// that does not come to its end, the longest first. A detach that is merely
// under way gives none.
func (p *View) ReusedWhileDetaching(va Attachment) ([]*corev1.Pod, bool) {
	if p.World.Desired.Find(va.VolumeNode) == nil || va.DeletionTimestamp == nil || !va.Ours() {
		return nil, false
	}
	failure, grace := p.DetachError(va.VolumeAttachment), NoAnswerGrace
	if failure != nil {
		grace = CallGrace(va.Spec.Attacher, failure.Message)
	}
	if failure == nil && p.StaleAttacherLease(va.Spec.Attacher) == nil || !p.Lasted(*va.DeletionTimestamp, grace) {
		return nil, false
	}
	pods := p.WaitingHere(va.VolumeNode)
	return pods, len(pods) > 0
}

// StaleAttacherLease is the lease of the driver's external-attacher if nobody
// renews it. Where some leases could not be read, the one that is renewed may be
// among them, and nothing is known.
func (p *View) StaleAttacherLease(driver string) *coordinationv1.Lease {
	lease := p.AttacherLease(driver)
	if lease == nil || !p.Snapshot.Complete(snapshot.Leases) || p.Age(Renewed(lease)) <= AttacherLeaseGrace {
		return nil
	}
	if p.LastAnswer(driver).After(Renewed(lease).Add(AttacherSilent)) {
		return nil // an attacher answered long after whatever its last holder had begun: it does without this lease
	}
	return lease
}
