package reconcile

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// The model is a controller that has just started. A controller that has been at work for a
// while looked up each object when it first saw it, and may remember what no object shows any
// more. The functions here work out how it may differ, so that the model promises of it
// nothing that holds only for a fresh one.

// Running returns After and Bound for a controller that has been at work for a while, counted
// from the snapshot. When it started to count is not visible: it may be about to act on any
// event. The exception is the time-out of a wait whose earliest start the objects show. A
// Detach whose time-out is over is carried out as a ForceDetach.
func (u Until) Running(d Decision) (after, bound time.Duration) {
	if u.Event == MaxWaitForUnmount {
		after = max(0, u.After-d.Waited)
	}
	if u.Fresh || u.Bound == 0 || len(d.MayKeep) > 0 {
		return after, 0
	}
	return after, u.Bound + d.Late
}

// MayBeForced reports whether a controller at work may carry out by force a detach that is
// due now: once it may have waited for the whole time-out, it no longer looks at the live
// node.
func (w *World) MayBeForced(d *Decision) bool {
	return d.Verb == Detach && !w.options.DisableForceDetachOnTimeout && d.Waited >= w.options.MaxWaitForUnmount
}

// atWork is what a controller at work may know that the World does not.
type atWork struct {
	// kept are the pairs that it may still want, with the pods for which it wants them.
	kept map[VolumeNode][]types.NamespacedName
	// claimless counts, by node, the unwanted pairs whose claim may have gone.
	claimless map[types.NodeName]int
}

func (w *World) atWork() *atWork {
	all := &atWork{map[VolumeNode][]types.NamespacedName{}, map[types.NodeName]int{}}
	for _, f := range w.Forgotten() {
		if f.Volume != "" {
			all.kept[f.VolumeNode] = f.Pods
		}
	}
	for _, row := range w.Actual.Items() {
		if w.Desired.Find(row.VolumeNode) == nil && w.claimWent(row) {
			all.claimless[row.Node]++
		}
	}
	return all
}

// claimWent reports whether the claim that the volume was attached for may be gone: it does
// not exist any more, or the claim of its name is younger than the attachment, as far as both
// show their age.
func (w *World) claimWent(row *AttachedVolume) bool {
	if !w.snapshot.Complete(snapshot.Claims) || !w.snapshot.Complete(snapshot.Volumes) {
		return false
	}
	pvs := w.volumes.get(row.Volume)
	return len(pvs) == 0 || slices.ContainsFunc(pvs, func(pv *corev1.PersistentVolume) bool {
		of := pv.Spec.ClaimRef
		if of == nil {
			return true
		}
		claim := w.snapshot.Claim(namespaced(of.Namespace, of.Name))
		return claim == nil || claim.UID != of.UID || row.Attachment == nil || row.Attachment.CreationTimestamp.IsZero() ||
			claim.CreationTimestamp.IsZero() || row.Attachment.CreationTimestamp.Before(&claim.CreationTimestamp)
	})
}

// late is how much later a controller at work may come to the pair. When a pod goes it looks
// up which volumes the pod had; where the claim went first, only its populator finds them,
// one volume of a pod in each of its rounds (findAndRemoveDeletedPods). An attach that has
// not begun although the pods have long been there is perhaps unknown to it yet.
func (p *pass) late(n *onNode) time.Duration {
	switch d := n.decision; {
	case len(d.Holders) > 0:
		return p.latest(d.Holders)
	case d.Verb == Attach && d.Reason == NotAttached && p.overdue(n):
		return PodsListed
	case len(d.MayKeep) > 0 || d.Verb != Detach && d.Verb != ForceDetach && d.Reason != StillMounted:
		return 0
	case p.claimWent(n.actual):
		return time.Duration(p.claimless[n.Node]) * PopulatorPeriod
	default:
		return 0
	}
}

// latest is the longest late of the nodes.
func (p *pass) latest(nodes []types.NodeName) (late time.Duration) {
	for _, node := range nodes {
		late = max(late, p.late(p.on(node)))
	}
	return late
}

// overdue reports whether a controller at work would have begun the attach by now if it knew
// all that the objects show, because none of the pods has come only just now.
func (p *pass) overdue(n *onNode) bool {
	const seconds = 10 * time.Second // a judgement: its caches are that much behind at most
	users := p.users(n.VolumeNode)
	return len(users) > 0 && !slices.ContainsFunc(users, func(pod *corev1.Pod) bool {
		return boundAt(pod).IsZero() || p.snapshot.TakenAt.Sub(boundAt(pod)) < seconds
	})
}

// boundAt is when the pod was bound to its node.
func boundAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// remembers reports whether a controller at work may treat an unwanted pair otherwise because
// it still has the volume's spec, which no pod on the node shows any more: its verify sync
// may forget the pair first, or its operations on the volume take turns.
func (p *pass) remembers(n *onNode) bool {
	if n.actual.Spec != nil {
		return false
	}
	if driver, handle, ok := ParseCSI(n.Volume); ok && n.actual.State == Attached && p.options.VerifySync >= 0 && p.unverifiable(n, driver, handle) {
		return true
	}
	return p.remembersOneNode(n) && slices.ContainsFunc(p.nodes, func(other onNode) bool {
		return other.Node != n.Node && (other.desired == nil && p.mayDetach(&other) || other.desired != nil && p.mayAttach(&other, n))
	})
}

// remembersOneNode reports whether a controller at work may know the volume as one for one
// node at a time, while this world has no spec for it.
func (p *pass) remembersOneNode(n *onNode) bool {
	pvs := p.Volumes(n.Volume)
	return n.actual.Spec == nil && (len(pvs) == 0 || slices.ContainsFunc(pvs, func(pv *corev1.PersistentVolume) bool { return !(&VolumeSpec{PV: pv}).MultiAttach() }))
}

// waited is the longest time for which a running controller may have counted the wait for an
// unmount (detachRequestedTime): since it took its lease, or since the last container ended
// of the pods that wanted the volume, whichever is later.
func (p *pass) waited(d *Decision) time.Duration {
	var since time.Time
	later := func(t time.Time) {
		if t.After(since) {
			since = t
		}
	}
	if lease := p.snapshot.Lease(metav1.NamespaceSystem, ControllerManager); lease != nil && lease.Spec.AcquireTime != nil {
		later(lease.Spec.AcquireTime.Time)
	}
	for _, pod := range p.users(d.VolumeNode) {
		for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses) {
			if c.State.Terminated != nil {
				later(c.State.Terminated.FinishedAt.Time)
			}
		}
	}
	return min(p.options.MaxWaitForUnmount, max(0, p.snapshot.TakenAt.Sub(since)))
}

// unheard reports whether a controller at work may either not have heard of the volume's
// attachment to the node, which only its VolumeAttachment shows, or still want the volume
// there.
func (p *pass) unheard(node types.NodeName) bool {
	return p.on(node).actual.State == Uncertain || len(p.on(node).decision.MayKeep) > 0
}
