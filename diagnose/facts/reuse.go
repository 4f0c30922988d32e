package facts

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// ReusedWhileDetaching are the pods that wait on the attachment's own node for a detach that
// does not end, the longest first. There are none while the detach may merely be under way.
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

// AttacherOf is how who asks the driver to attach and detach is called.
func AttacherOf(driver string) string { return "the external-attacher of " + driver }

// StaleAttacherLease is the expired lease of the driver's external-attacher. It is nil where some
// leases could not be read, as one of those may be renewed, and where the clock of its writer may
// be behind.
func (p *View) StaleAttacherLease(driver string) *coordinationv1.Lease {
	lease := p.AttacherLease(driver)
	if lease == nil || !p.Snapshot.Complete(snapshot.Leases) || p.Age(Renewed(lease)) <= AttacherLeaseGrace {
		return nil
	}
	answered := p.LastAnswer(driver)
	if p.oldAsItsNode(lease) || p.Age(answered) <= AttacherLeaseGrace || answered.After(Renewed(lease).Add(AttacherSilent)) {
		// an attacher answered a moment ago, or long after the last holder's time: it does without this lease
		return nil
	}
	return lease
}
