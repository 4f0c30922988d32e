package reconcile

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Event is something that ends a decision of the first pass.
type Event string

// The events. The controller acts on each in its next pass, 100 ms later.
const (
	// NodeUpdate: the Node is written to, and the controller reads its
	// volumesInUse anew (nodeUpdate). Whoever writes and whatever, it counts.
	NodeUpdate Event = "NodeUpdate"
	// Unmount: the kubelet takes the volume off its node's volumesInUse.
	Unmount Event = "Unmount"
	// MaxWaitForUnmount: the time to wait for the Unmount is over, and the node
	// has not been Ready when it was.
	MaxWaitForUnmount Event = "MaxWaitForUnmount"
	// VerifySync: the controller looks whether the VolumeAttachment is there and
	// attached, and forgets an attachment of which that is not true
	// (VerifyVolumesAreAttached).
	VerifySync Event = "VerifySync"
	// OperationEnds: the operation that keeps this one from starting ends. With
	// FailedDetachIsUncertain it need not have gone well: what it leaves Uncertain
	// holds nothing back.
	OperationEnds Event = "OperationEnds"
	// HolderLeaves: the volume is confirmed on none of the Holders any more.
	HolderLeaves Event = "HolderLeaves"
	// Backoff: the objects show that the operation fails; it is tried again.
	Backoff Event = "Backoff"
)

// Until is one way in which a decision ends. Where a decision has several, the
// first to come true ends it; where one that is no Keep has none, nothing but a
// person or another pod ends it. What those may do at any time is not listed: a
// pod that goes or comes, the out-of-service taint, a Node that is deleted.
type Until struct {
	Event Event
	// After is the earliest and Bound the latest moment, counted from the
	// controller's start, as long as the objects stay as they are; Bound is zero
	// where no latest is known. Of a Backoff they are the shortest and the
	// longest pause between two tries.
	After, Bound time.Duration
	// Then is the verb that follows; "" where the pair is in neither world then.
	Then Verb
}

// Running are After and Bound for a controller that has been at work for a
// while, counted from the snapshot. Each Bound holds for it as well. What it
// counts from it keeps to itself: it may be about to act on any event, but for
// the time-out of a wait of which the objects tell when it began at the earliest.
func (u Until) Running(d Decision) (after, bound time.Duration) {
	if u.Event == MaxWaitForUnmount {
		after = max(0, u.After-d.Waited)
	}
	return after, u.Bound
}

const (
	// operationTakes is how long an attach or detach waits for its
	// VolumeAttachment (csiTimeout).
	operationTakes = 2 * time.Minute
	// nodeReportTakes is the longest pause between two posts of a kubelet that
	// has nothing new to say: nodeStatusReportFrequency, half of it as jitter
	// after the last change, and the tick of 10 s on which it looks. A kubelet
	// that dies meanwhile is as good: its Node turns not Ready, and that is an
	// update. Only one that cannot write its status, and yet renews its lease,
	// breaks this bound.
	nodeReportTakes = 5*time.Minute + 150*time.Second + 10*time.Second
	// verifySyncAfter is --attach-detach-reconcile-sync-period. It is counted
	// from the controller's construction, before its caches are filled, so that
	// in a large cluster the first pass may come later than this.
	verifySyncAfter = time.Minute
	// backoffFirst and backoffLast bound the pause after a failed operation,
	// which doubles each time (exponentialbackoff).
	backoffFirst = 500 * time.Millisecond
	backoffLast  = 2*time.Minute + 2*time.Second
)

// follow fills in what ends each decision about the volume.
func (p *pass) follow() {
	for _, n := range p.nodes {
		d := n.decision
		d.Until = p.until(d)
		if d.Verb == Wait {
			d.Waited = p.waited(d)
		}
	}
}

// waited is for how long at most a running controller has counted the wait for an
// unmount (detachRequestedTime): since it took its lease, and since the last
// container ended of the pods that wanted the volume.
func (p *pass) waited(d *Decision) time.Duration {
	var since time.Time
	later := func(t time.Time) {
		if t.After(since) {
			since = t
		}
	}
	if lease := p.snapshot.Lease("kube-system", "kube-controller-manager"); lease != nil && lease.Spec.AcquireTime != nil {
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

func (p *pass) until(d *Decision) []Until {
	switch d.Verb {
	case Wait:
		return append(p.untilUnmounted(d), p.untilVerified(d)...)
	case Keep:
		return p.untilVerified(d)
	case MultiAttach:
		return []Until{{Event: HolderLeaves, Bound: p.holdersLeave(d), Then: Attach}}
	case Blocked:
		if d.Reason != OperationPending {
			return nil
		}
		then := Attach
		if p.on(d.Node).exclusive() && len(p.confirmed(d.Node)) > 0 {
			then = MultiAttach
		}
		return []Until{{Event: OperationEnds, Bound: p.operations(d.Volume, d.Holders), Then: then}}
	default: // Attach, Detach, ForceDetach
		return append(p.untilServed(d), p.untilItWorks(d)...)
	}
}

// untilUnmounted is what ends a Wait: the words of the node, or the time-out.
func (p *pass) untilUnmounted(d *Decision) []Until {
	node := p.snapshot.Node(d.Node)
	_, detachable := p.plugins.detachable(d.Volume, p.on(d.Node).actual.Spec)
	next, forced := Detach, ForceDetach
	if !detachable {
		next, forced = Blocked, Blocked
	}
	var rows []Until
	switch {
	case d.Reason != AssumedMounted:
		rows = append(rows, Until{Event: Unmount, Then: next})
	case node != nil && NodeReady(node):
		rows = append(rows, Until{Event: NodeUpdate, Bound: nodeReportTakes, Then: next})
	case node != nil: // somebody may write to it, but no kubelet will
		rows = append(rows, Until{Event: NodeUpdate, Then: next})
	}
	wait := d.After
	if !detachable && !NodeReady(node) && !p.options.DisableForceDetachOnTimeout {
		wait = p.options.MaxWaitForUnmount // d.After tells of detaches that can start
	}
	if wait > 0 {
		rows = append(rows, Until{Event: MaxWaitForUnmount, After: wait, Bound: wait, Then: forced})
	}
	return rows
}

// untilVerified is what the verify sync will do about the pair. What is wanted
// is attached anew, what is not is forgotten.
func (p *pass) untilVerified(d *Decision) []Until {
	n := p.on(d.Node)
	if !p.unverifiable(n) {
		return nil
	}
	row := Until{Event: VerifySync, After: verifySyncAfter, Bound: verifySyncAfter}
	if n.desired != nil {
		row.Then = Attach
		stays := func(node types.NodeName) bool { return !p.unverifiable(p.on(node)) } // else forgotten at the same time
		if n.exclusive() && slices.ContainsFunc(p.confirmed(d.Node), stays) {
			row.Then = MultiAttach
		}
	}
	return []Until{row}
}

// unverifiable mirrors the CSI attacher's VolumesAreAttached, which is asked
// about confirmed attachments with a spec: the VolumeAttachment is missing or
// not attached. FC and iSCSI always answer that all is well.
func (p *pass) unverifiable(n *onNode) bool {
	row := n.actual
	if row == nil || row.State != Attached {
		return false
	}
	driver, handle, ok := row.Spec.CSI()
	if !ok || !p.plugins.attachRequired(driver) {
		return false
	}
	va := row.Attachment
	if !row.computedName {
		va = p.snapshot.VolumeAttachment(VolumeAttachmentName(handle, driver, n.Node))
	}
	if va == nil {
		return p.snapshot.Complete(snapshot.VolumeAttachments) && p.snapshot.Complete(snapshot.CSIDrivers)
	}
	return !va.Status.Attached
}

// confirmed are the nodes but the one that still hold the volume once the
// detaches of this pass are over.
func (p *pass) confirmed(but types.NodeName) []types.NodeName {
	return slices.DeleteFunc(p.holders(), func(node types.NodeName) bool {
		verb := p.on(node).decision.Verb
		return node == but || verb == Detach || verb == ForceDetach
	})
}

// holdersLeave is the latest moment at which all holders have left; zero where
// one of them may stay for good.
func (p *pass) holdersLeave(d *Decision) time.Duration {
	var latest time.Duration
	var detached []types.NodeName
	for _, node := range d.Holders {
		holder := p.on(node).decision
		if holder.Verb != Wait {
			return 0 // its pods may stay, or it cannot be detached
		}
		var first Until
		for _, row := range p.until(holder) {
			if row.Bound > 0 && row.Then != Blocked && (first.Bound == 0 || row.Bound < first.Bound) {
				first = row
			}
		}
		if first.Bound == 0 {
			return 0
		}
		latest = max(latest, first.Bound)
		if first.Then != "" {
			detached = append(detached, node)
		}
	}
	took := p.operations(d.Volume, detached)
	if len(detached) > 0 && (took == 0 || !p.Behaviours.Has(FailedDetachIsUncertain)) {
		return 0 // the detach may take for ever, or fail and leave all as it was
	}
	return latest + took
}

// untilServed is for the contenders that the controller does not serve first.
func (p *pass) untilServed(d *Decision) []Until {
	if len(d.Contenders) < 2 {
		return nil
	}
	then := d.Verb
	if then == Attach && p.on(d.Node).exclusive() {
		then = MultiAttach
	}
	return []Until{{Event: OperationEnds, Bound: p.operations(d.Volume, without(d.Contenders, []types.NodeName{d.Node})), Then: then}}
}

// untilItWorks is for an operation of which its VolumeAttachment shows that it
// fails at its first look. An error that is out of date fails it too.
func (p *pass) untilItWorks(d *Decision) []Until {
	va := p.snapshot.VolumeAttachment(d.VolumeAttachment)
	var fails bool
	switch {
	case d.Verb == Attach:
		fails = va != nil && (va.DeletionTimestamp != nil || va.Status.AttachError != nil && !va.Status.Attached)
	case d.VolumeAttachment == "":
		plugin, _, _ := splitUniqueName(d.Volume)
		fails = plugin == csiPlugin // csiAttacher.Detach cannot read the name
	default:
		fails = va != nil && va.Status.DetachError != nil
	}
	if !fails {
		return nil
	}
	return []Until{{Event: Backoff, After: backoffFirst, Bound: backoffLast, Then: d.Verb}}
}

// operations is how long those on the nodes take together; zero where nothing
// bounds them, as nothing bounds a flexvolume driver. Of a volume for one node
// at a time they run one after the other.
func (p *pass) operations(volume corev1.UniqueVolumeName, nodes []types.NodeName) time.Duration {
	n := len(nodes)
	if n > 0 && p.on(nodes[0]).spec().MultiAttach() {
		n = 1
	}
	switch plugin, _, _ := splitUniqueName(volume); plugin {
	case csiPlugin, fcPlugin, iscsiPlugin:
		return time.Duration(n) * operationTakes
	default:
		return 0
	}
}

// spec is the one that the pair's operation goes by.
func (n *onNode) spec() *VolumeSpec {
	if n.desired != nil {
		return n.desired.Spec
	}
	return n.actual.Spec
}

func without(nodes, others []types.NodeName) []types.NodeName {
	return slices.DeleteFunc(slices.Clone(nodes), func(n types.NodeName) bool { return slices.Contains(others, n) })
}
