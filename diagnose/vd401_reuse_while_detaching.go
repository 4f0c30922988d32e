package diagnose

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var reuseWhileDetaching = Check{
	Code:     "VD401",
	Name:     "reuse-while-detaching",
	Title:    "A pod came back to a node while its volume was being detached there, and the detach fails",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	},
	Run: runReuseWhileDetaching,
}

const (
	// refusalSettles is how long a driver that answers with a refusal is granted.
	// A detachError is written only when a detach has failed, and goes only with
	// the object: it proves that the last attempt failed. The attacher tries
	// after 0, 1, 3, 7, 15, 31 and 63 s, so after a minute the driver has refused
	// about six times and a slow start is no longer an explanation.
	refusalSettles = time.Minute
	// slowDetachSettles is the same where nothing was refused: the calls end
	// without an answer after 15 s each, though the storage system may well be
	// at work, or nobody calls. It covers one operation of the controller, 2 min,
	// and some margin.
	slowDetachSettles = 3 * time.Minute
	// leaseSettles is how old the renewal of an attacher's lease must be before
	// its holder counts as gone; it renews every 5 s and loses it after 15.
	leaseSettles = time.Minute
)

func runReuseWhileDetaching(p *Pass) {
	for _, va := range p.attachments() {
		if pods, ok := p.reusedWhileDetaching(va); ok && !p.detachLacksSecret(va.VolumeAttachment) {
			p.reuse(va, pods)
		}
	}
}

// reusedWhileDetaching are the pods that wait on the node itself for a detach
// that does not come to its end, the longest first. A detach that is merely
// under way gives none.
func (p *Pass) reusedWhileDetaching(va attachment) ([]*corev1.Pod, bool) {
	row := p.World.Desired[va.VolumeNode]
	if row == nil || va.DeletionTimestamp == nil || !va.ours() {
		return nil, false
	}
	failure, settles := va.Status.DetachError, refusalSettles
	if failure == nil || unanswered(failure.Message) {
		settles = slowDetachSettles
	}
	if failure == nil && p.staleAttacherLease(va.Spec.Attacher) == nil || p.Age(*va.DeletionTimestamp) < settles {
		return nil, false
	}
	pods := pending(p.wantingPods(row))
	longestFirst(pods)
	return pods, len(pods) > 0
}

// staleAttacherLease is the lease of the driver's external-attacher if nobody
// renews it. Where some leases could not be read, the one that is renewed may be
// among them, and nothing is known.
func (p *Pass) staleAttacherLease(driver string) *coordinationv1.Lease {
	lease := p.attacherLease(driver)
	if lease == nil || !p.Snapshot.Complete(snapshot.Leases) || p.Age(renewed(lease)) <= leaseSettles {
		return nil
	}
	return lease
}

func (p *Pass) reuse(va attachment, pods []*corev1.Pod) {
	pod, pv, deleted := pods[0], p.shortVolume(va.Volume), *va.DeletionTimestamp
	f := Finding{
		Subject:          podObject(pod),
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Pods:             podNames(pods),
		Since:            &deleted,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, which has been on its way off that node since %s (%s)",
			podName(pod), va.Node, pv, stamp(deleted), rounded(p.Age(deleted))),
		Cause: "the pod came back to the node before the detach for its predecessor had ended; the controller does not attach the volume " +
			"again while the old VolumeAttachment is there",
		Evidence: []Evidence{{va.object(), "metadata.deletionTimestamp", stamp(deleted)}},
		SelfHeals: SelfHeals{Because: "the attacher asks the driver again, at most 5 min apart, and once it succeeds the volume is attached anew " +
			"within about 2 min; while the driver fails nothing changes"},
		Advice: "mend what the driver complains of, or let the pod start on another node; taking the finalizer off hides the volume from the " +
			"driver, which then still has it attached here",
	}
	if failure := va.Status.DetachError; failure != nil {
		f.Message += fmt.Sprintf(", and the driver fails to detach it: %q", failure.Message)
		f.Evidence = append(f.Evidence, Evidence{va.object(), "status.detachError", fmt.Sprintf("%s at %s", failure.Message, stamp(failure.Time))})
	}
	if lease := p.staleAttacherLease(va.Spec.Attacher); lease != nil {
		renewed := lease.Spec.RenewTime.UTC().Format(time.RFC3339)
		f.Evidence = append(f.Evidence, Evidence{"lease/" + lease.Namespace + "/" + lease.Name, "spec.renewTime", renewed})
		if va.Status.DetachError == nil {
			f.Message += ", and the attacher of " + va.Spec.Attacher + ", which would detach it, has not renewed its lease since " + renewed
			f.SelfHeals.Because = "nobody asks the driver: its external-attacher does not run"
			f.Advice = "bring the driver's controller pods back; then both the detach and the new attach follow by themselves"
		}
	}
	p.Report(f)
}
