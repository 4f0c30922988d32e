package diagnose

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var vaStuckDeleting = Check{
	Code:     "VD103",
	Name:     "va-stuck-deleting",
	Title:    "A VolumeAttachment cannot be deleted because the driver keeps failing to detach",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	},
	Run: runVAStuckDeleting,
}

const (
	// attacherRetries is the longest time between two attempts of an
	// external-attacher that lives: its back-off ends at 5 min, twice that
	// leaves room for the calls themselves. A detachError that is older tells
	// of an attacher that no longer tries, which is another failure.
	attacherRetries = 10 * time.Minute
	// stuckDeleting is how long a detach may fail before it counts as stuck: by
	// then the attacher has made about ten attempts, two of them at its longest
	// back-off.
	stuckDeleting = 10 * time.Minute
	// outageSettles is stuckDeleting for a driver that does not answer. Its pods
	// may be restarting, or its storage system may have a long queue.
	outageSettles = 30 * time.Minute
)

func runVAStuckDeleting(p *Pass) {
	waiting := p.waiting()
	for _, va := range p.attachments() {
		if !p.detachStuck(va) || p.detachFromDeletedNode(va) {
			continue // attach-to-deleted-node-detach-fails says more
		}
		if _, ok := p.reusedWhileDetaching(va); ok || p.detachLacksSecret(va.VolumeAttachment) {
			continue // reuse-while-detaching and publish-secret-missing say more
		}
		p.stuckDeleting(va, elsewhere(waiting[va.Volume], va.Node))
	}
}

// detachStuck says that the driver has failed to detach the volume for longer
// than any trouble of its own may last.
func (p *Pass) detachStuck(va attachment) bool {
	failure := va.Status.DetachError
	if va.DeletionTimestamp == nil || failure == nil || !va.ours() ||
		!slices.Contains(va.Finalizers, "external-attacher/"+attacherName(va.Spec.Attacher)) || p.Age(failure.Time) > attacherRetries {
		return false
	}
	settles := stuckDeleting
	if unanswered(failure.Message) {
		settles = outageSettles
	}
	return p.Age(*va.DeletionTimestamp) >= settles
}

func (p *Pass) stuckDeleting(va attachment, waiters []*corev1.Pod) {
	pv, failure := p.shortVolume(va.Volume), va.Status.DetachError
	f := Finding{
		Subject:          Object{Kind: "VolumeAttachment", Name: va.Name, UID: va.UID},
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Since:            va.DeletionTimestamp,
		Message: fmt.Sprintf("Volume %s has been on its way off node %s for %s, and the driver keeps failing to detach it: %q",
			pv, va.Node, rounded(p.Age(*va.DeletionTimestamp)), failure.Message),
		Cause: detachCause(failure.Message),
		Evidence: []Evidence{
			{va.object(), "metadata.deletionTimestamp", stamp(*va.DeletionTimestamp)},
			{va.object(), "metadata.finalizers", fmt.Sprint(va.Finalizers)},
			{va.object(), "status.detachError", fmt.Sprintf("%s at %s", failure.Message, stamp(failure.Time))},
		},
		SelfHeals: SelfHeals{Because: "the attacher asks the driver again, at most 5 min apart, and the object goes once the driver succeeds; " +
			"it has not in " + rounded(failure.Time.Sub(va.DeletionTimestamp.Time))},
		Advice: "mend what the driver complains of; the object then goes by itself. Taking the finalizer off leaves the volume attached in the " +
			"storage system, where the next attach fails or, worse, succeeds beside it",
	}
	if was, is, ok := p.asksNewMachine(va); ok {
		f.Cause = fmt.Sprintf("the volume was attached to machine %s, and the driver is asked about %s, which has the node's name now: detach-asks-new-machine", was, is)
	}
	if lease := p.attacherGone(va); lease != nil {
		f.Message = fmt.Sprintf("Volume %s has been on its way off node %s for %s, and the driver failed to detach it as long as its attacher ran: %q",
			pv, va.Node, rounded(p.Age(*va.DeletionTimestamp)), failure.Message)
		f.Evidence = append(f.Evidence, leaseEvidence(lease))
		f.SelfHeals.Because = "nobody asks the driver at present: attacher-down; once its attacher is back it does, and the driver may well fail as before"
	}
	if users := p.World.LivePods(va.VolumeNode); len(users) > 0 {
		f.Severity, f.Pods = Error, podNames(users)
		f.Message += fmt.Sprintf("; pod %s still uses the volume there and loses it once the driver succeeds", podName(users[0]))
	} else if len(waiters) > 0 && p.oneNode(va.Volume) {
		f.Severity, f.Pods = Error, podNames(waiters)
		f.Message += fmt.Sprintf("; pod %s waits for it on node %s", podName(waiters[0]), waiters[0].Spec.NodeName)
	}
	p.Report(f)
}

// attacherGone is the lease that says that nobody detaches the volume now, where
// attacher-down tells of it. It changes only what is said about the detach: a
// driver that failed before is a failure of its own.
func (p *Pass) attacherGone(va attachment) *coordinationv1.Lease {
	if !p.Snapshot.Complete(snapshot.Leases) {
		return nil
	}
	lease, tasks := p.abandoned(va.Spec.Attacher)
	if !slices.ContainsFunc(tasks, func(t task) bool { return t.VolumeAttachment == va.VolumeAttachment }) {
		return nil
	}
	return lease
}

// detachCause sorts the driver's words by what may be done about them.
func detachCause(message string) string {
	switch {
	case containsAny(message, "not found", "does not exist", "already detached", "not attached"):
		return "the driver does not find the volume or the node: the volume may well be detached already, and the driver treats that as a failure"
	case containsAny(message, "in use", "busy", "mounted"):
		return "the driver says that the volume is still in use on the node"
	case unanswered(message):
		return "the driver or its storage system does not answer in time"
	default:
		return "the driver refuses; see its words"
	}
}
