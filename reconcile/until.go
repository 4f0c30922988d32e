package reconcile

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Event is something that ends a decision of the first pass.
type Event string

// The events. The controller acts on each in its next pass, 100 ms later.
const (
	// NodeUpdate: somebody writes to the Node, and the controller reads its volumesInUse
	// again (nodeUpdate). Any write by anybody counts.
	NodeUpdate Event = "NodeUpdate"
	// Unmount: the kubelet takes the volume off its node's volumesInUse.
	Unmount Event = "Unmount"
	// MaxWaitForUnmount: the time to wait for the Unmount is over, and the node is not Ready
	// at that moment.
	MaxWaitForUnmount Event = "MaxWaitForUnmount"
	// VerifySync: the controller looks whether the VolumeAttachment exists and is attached,
	// and otherwise forgets the attachment (VerifyVolumesAreAttached).
	VerifySync Event = "VerifySync"
	// OperationEnds: the operation that keeps this one from starting ends. With
	// FailedDetachIsUncertain it may have failed: an Uncertain attachment holds nothing back.
	OperationEnds Event = "OperationEnds"
	// HolderLeaves: the volume is no longer confirmed on any of the Holders.
	HolderLeaves Event = "HolderLeaves"
	// Backoff: the operation fails, as the objects show; it is tried again.
	Backoff Event = "Backoff"
)

// Until is one way in which a decision ends. Where a decision has several, the first to come
// true ends it. A decision other than Keep that has none ends only when a person or another
// pod acts. Not listed is what those may do at any time: a pod that goes or comes, the
// out-of-service taint, a Node that is deleted.
type Until struct {
	Event Event
	// After is the earliest and Bound the latest moment, counted from the controller's start,
	// as long as the objects stay as they are; Bound is zero where no latest is known. For a
	// Backoff they are the shortest and the longest pause between two tries.
	After, Bound time.Duration
	// Then is the verb that follows; "" where the pair is then in neither world.
	Then Verb
	// Contenders are nodes, this one among them. The controller then serves one of them
	// at random (map order): Then is the verb of the one that is served.
	Contenders []types.NodeName
	// Fresh reports whether Bound holds only for a controller that has just started. A
	// controller at work may have forgotten an attachment that only its VolumeAttachment
	// shows, or never have heard of it; it does not verify an attachment that it found in a
	// node's status when it started, while no pod wanted it there; and it may know what no
	// object shows any more (MayKeep, remembers).
	Fresh bool
}

const (
	// CSITimeout is how long an attach or detach waits for its VolumeAttachment, and
	// how long the kubelet waits for one call to a driver (csiTimeout,
	// pkg/volume/csi/csi_plugin.go).
	CSITimeout = 2 * time.Minute
	// AttachPoll is the longest pause between two looks at a VolumeAttachment within
	// CSITimeout (maxBackoff, pkg/volume/csi/csi_attacher.go).
	AttachPoll = 7 * time.Second
	// NodeStatusUpdate is nodeStatusUpdateFrequency: the tick on which the kubelet compares
	// its node's status, including volumesInUse, and writes what has changed
	// (pkg/kubelet/apis/config/v1beta1/defaults.go).
	NodeStatusUpdate = 10 * time.Second
	// NodeStatusReport is nodeStatusReportFrequency: the interval in which the kubelet writes
	// a status that has not changed.
	NodeStatusReport = 5 * time.Minute
	// NodeReportTakes is the longest pause between two posts of a kubelet that has nothing
	// new to say: the report, half of it as jitter after the last change, and the tick on
	// which it looks. A kubelet that dies meanwhile keeps the bound too: its Node becomes not
	// Ready, and that is an update. Only a kubelet that cannot write its status, and yet
	// renews its lease, breaks it.
	NodeReportTakes = NodeStatusReport + NodeStatusReport/2 + NodeStatusUpdate
	// VerifySyncPeriod is --attach-detach-reconcile-sync-period. It is counted
	// from the controller's construction, before its caches are filled, so that
	// in a large cluster the first pass may come later than this.
	VerifySyncPeriod = time.Minute
	// PopulatorPeriod is the pause between the populator's rounds, in which it looks for pods
	// that no longer want their volumes (DesiredStateOfWorldPopulatorLoopSleepPeriod,
	// DefaultTimerConfig).
	PopulatorPeriod = time.Minute
	// PodsListed is the longest time until a controller looks up again a pod's volumes that
	// it could not resolve before: no event tells it that a claimRef, a CSIDriver or the
	// annotation of a node has come since (DesiredStateOfWorldPopulatorListPodsRetryDuration,
	// DefaultTimerConfig).
	PodsListed = 3 * time.Minute
	// BackoffFirst is the pause of the controller and of the kubelet after the first failure
	// of an operation. Each further pause is twice as long
	// (pkg/util/goroutinemap/exponentialbackoff).
	BackoffFirst = 500 * time.Millisecond
	// BackoffLast is the longest of these pauses.
	BackoffLast = 2*time.Minute + 2*time.Second
)

// follow fills in the events that end each decision about the volume.
func (p *pass) follow() {
	for _, n := range p.nodes {
		n.decision.MayKeep = p.kept[n.VolumeNode]
	}
	for i := range p.nodes {
		d := p.nodes[i].decision
		d.Late = p.late(&p.nodes[i])
		d.Until = p.until(&p.nodes[i])
		if d.Verb == Wait || d.Verb == Detach {
			d.Waited = p.waited(d)
		}
	}
}

func (p *pass) until(n *onNode) []Until {
	switch d := n.decision; d.Verb {
	case Wait, Keep:
		return p.leaves(n)
	case MultiAttach:
		if p.leave == nil {
			leave := p.holdersLeave(d)
			p.leave = &leave
		}
		row := *p.leave
		row.Contenders = p.waiting(n)
		return []Until{row}
	case Blocked:
		if d.Reason != OperationPending {
			return nil
		}
		row := p.operationEnds(n)
		if n.exclusive() && slices.ContainsFunc(p.confirmed(), func(node types.NodeName) bool { return node != d.Node }) {
			row.Then = MultiAttach
		} else {
			row.Contenders = p.waiting(n)
		}
		return []Until{row}
	default: // Attach, Detach, ForceDetach
		return slices.Concat(p.untilServed(n), p.untilItWorks(d), p.untilForced(n))
	}
}

// untilUnmounted has the events that end a Wait: the node's own report, or the time-out.
func (p *pass) untilUnmounted(n *onNode) []Until {
	d := n.decision
	node := p.snapshot.Node(d.Node)
	_, detachable := p.plugins.detachable(d.Volume, n.actual.Spec)
	next, forced := Detach, ForceDetach
	if !detachable {
		next, forced = Blocked, Blocked
	}
	var rows []Until
	switch {
	case d.Reason != AssumedMounted:
		rows = append(rows, Until{Event: Unmount, Then: next})
	case node != nil && NodeReady(node):
		rows = append(rows, Until{Event: NodeUpdate, Bound: p.lookedAt(n, NodeReportTakes), Then: next, Fresh: true})
	case node != nil: // somebody may write to it, but no kubelet will
		rows = append(rows, Until{Event: NodeUpdate, Then: next, Fresh: true})
	}
	if p.timesOut(d.Node) {
		wait := p.options.MaxWaitForUnmount
		row := Until{Event: MaxWaitForUnmount, After: wait, Bound: p.lookedAt(n, wait), Then: forced,
			Fresh: d.Reason == AssumedMounted || p.remembers(n)}
		if forced == ForceDetach {
			row.Contenders = p.timingOut(n)
		}
		rows = append(rows, row)
	}
	return rows
}

// untilVerified has what follows from the verify sync: a pair that is wanted is attached
// again, or waits for another holder; one that is not is forgotten.
func (p *pass) untilVerified(n *onNode) []Until {
	bound := p.verified(n)
	if bound == 0 {
		return nil
	}
	row := Until{Event: VerifySync, After: p.options.VerifySync, Bound: bound, Fresh: true}
	if n.desired != nil {
		row.Then = Attach
		if n.exclusive() && slices.ContainsFunc(p.staying(), func(node types.NodeName) bool { return node != n.Node }) {
			row.Then = MultiAttach
		} else {
			row.Contenders = p.waiting(n)
		}
	}
	return []Until{row}
}

// verified is the latest moment at which the verify sync finds that the pair is not attached;
// zero where it never does. The sync passes over a volume without a spec. An attach to
// another node writes the spec that all nodes of the volume share, whether or not it succeeds
// (AddVolumeNode).
func (p *pass) verified(n *onNode) time.Duration {
	period := p.options.VerifySync
	if n.actual == nil || n.actual.State != Attached || period < 0 {
		return 0
	}
	if n.actual.Spec != nil {
		if driver, handle, ok := n.actual.Spec.CSI(); ok && p.unverifiable(n, driver, handle) {
			return period
		}
		return 0
	}
	for i := range p.nodes {
		other := &p.nodes[i]
		if other.decision.Verb != Attach {
			continue
		}
		if driver, handle, ok := other.desired.Spec.CSI(); ok && p.unverifiable(n, driver, handle) {
			// The first sync after the attach has ended.
			return (CSITimeout/period + 1) * period
		}
	}
	return 0
}

// unverifiable mirrors the CSI attacher's VolumesAreAttached, which is asked about confirmed
// attachments with a spec. It reports whether the VolumeAttachment is missing or not
// attached. FC and iSCSI always answer that all is well.
func (p *pass) unverifiable(n *onNode, driver, handle string) bool {
	if !p.plugins.attachRequired(driver) {
		return false
	}
	va := n.actual.Attachment
	if !n.actual.computedName {
		va = p.snapshot.VolumeAttachment(VolumeAttachmentName(handle, driver, n.Node))
	}
	if va == nil {
		return p.snapshot.Complete(snapshot.VolumeAttachments) && p.snapshot.Complete(snapshot.CSIDrivers)
	}
	return !va.Status.Attached
}

// confirmed are the nodes that still hold the volume once the detaches of this pass
// are over.
func (p *pass) confirmed() []types.NodeName {
	if p.sure == nil {
		nodes := slices.DeleteFunc(slices.Clone(p.holders()), func(node types.NodeName) bool {
			verb := p.on(node).decision.Verb
			return verb == Detach || verb == ForceDetach
		})
		p.sure = &nodes
	}
	return *p.sure
}

// staying are the confirmed nodes that the verify sync does not forget at the same time.
func (p *pass) staying() []types.NodeName {
	if p.stay == nil {
		nodes := slices.DeleteFunc(slices.Clone(p.confirmed()), func(node types.NodeName) bool { return p.verified(p.on(node)) > 0 })
		p.stay = &nodes
	}
	return *p.stay
}

// holdersLeave is the event that ends a MultiAttach. It has no Bound where one of the holders
// may stay for good.
func (p *pass) holdersLeave(d *Decision) Until {
	all := Until{Event: HolderLeaves, Then: Attach}
	var latest time.Duration
	var detached []types.NodeName
	for _, node := range d.Holders {
		first := p.leavesFirst(p.on(node))
		if first.Bound == 0 {
			return all
		}
		latest, all.Fresh = max(latest, first.Bound), all.Fresh || first.Fresh || p.unheard(node)
		if first.Event != VerifySync {
			detached = append(detached, node)
		}
	}
	took := p.detaches(d.Volume, detached)
	if len(detached) > 0 && took == 0 {
		return Until{Event: HolderLeaves, Then: Attach}
	}
	all.Bound = latest + took
	return all
}

// leavesFirst is the way in which the holder leaves that has the earliest Bound; the zero
// Until where there is none.
func (p *pass) leavesFirst(holder *onNode) (first Until) {
	if holder.decision.Verb != Wait && holder.decision.Verb != Keep {
		return first // it cannot be detached
	}
	for _, row := range p.leaves(holder) {
		if row.Bound > 0 && row.Then != Blocked && (first.Bound == 0 || row.Bound < first.Bound) {
			first = row
		}
	}
	return first
}

// leaves has the ways in which the controller comes to take an attachment for gone: a detach,
// or the verify sync, which may come before a time-out has run out.
func (p *pass) leaves(n *onNode) []Until {
	verified := p.untilVerified(n)
	if n.decision.Verb != Wait {
		return verified
	}
	rows := p.untilUnmounted(n)
	if len(verified) > 0 {
		rows = slices.DeleteFunc(rows, func(u Until) bool { return u.After >= verified[0].Bound })
	}
	return append(rows, verified...)
}

// untilServed has the events that end the wait of the contenders that the controller does not
// serve first.
func (p *pass) untilServed(n *onNode) []Until {
	d := n.decision
	if len(d.Contenders) < 2 {
		return nil
	}
	first := d.Contenders[0]
	if first == d.Node {
		first = d.Contenders[1]
	}
	row := Until{Event: OperationEnds, Bound: p.take(d.Volume, len(d.Contenders)-1, p.on(first).spec().MultiAttach()), Then: d.Verb}
	switch {
	case d.Verb != Attach && p.anotherMayFail(n):
		row.Bound = 0 // one that fails may come first again
	case d.Verb != Attach:
	case n.exclusive() && slices.ContainsFunc(d.Contenders, func(node types.NodeName) bool { return node != d.Node && !p.on(node).beingDeleted() }):
		row.Then = MultiAttach // else each of the others fails, and holds nothing
	}
	return []Until{row}
}

// beingDeleted reports whether the VolumeAttachment of the pair, which the controller would
// attach, is Terminating: each try fails until that object has gone, whoever deletes it.
func (n *onNode) beingDeleted() bool {
	return n.actual != nil && n.actual.Attachment != nil && n.actual.computedName && n.actual.Attachment.DeletionTimestamp != nil
}

// anotherMayFail reports whether the detach of another node may fail.
func (p *pass) anotherMayFail(n *onNode) bool {
	if p.failing == nil {
		count := 0
		for _, other := range p.detached {
			if p.mayFail(other) {
				count++
			}
		}
		p.failing = &count
	}
	return *p.failing > 1 || *p.failing == 1 && !p.mayFail(n)
}

// operationEnds is the event that ends a Blocked: the end of the detaches that keep the
// attach from starting.
func (p *pass) operationEnds(n *onNode) Until {
	alone := n.exclusive()
	row, known := p.ends[alone]
	if !known {
		d := n.decision
		row = Until{Event: OperationEnds, Bound: p.detaches(d.Volume, d.Holders), Then: Attach,
			Fresh: slices.ContainsFunc(d.Holders, p.unheard) || len(d.Holders) > 1 && p.remembersOneNode(p.on(d.Holders[0]))}
		if p.ends == nil {
			p.ends = map[bool]Until{}
		}
		p.ends[alone] = row
	}
	return row
}

// untilItWorks has the back-off of an operation that fails at its first look, as its
// VolumeAttachment shows. An error that is out of date fails it too.
func (p *pass) untilItWorks(d *Decision) []Until {
	va := p.snapshot.VolumeAttachment(d.VolumeAttachment)
	var fails bool
	switch {
	case d.Verb == Attach:
		fails = va != nil && (va.DeletionTimestamp != nil || va.Status.AttachError != nil && !va.Status.Attached)
	case d.VolumeAttachment == "":
		plugin, _, _ := splitUniqueName(d.Volume)
		fails = plugin == CSIPlugin // csiAttacher.Detach cannot read the name
	default:
		fails = va != nil && va.Status.DetachError != nil
	}
	if !fails {
		return nil
	}
	return []Until{{Event: Backoff, After: BackoffFirst, Bound: BackoffLast, Then: d.Verb}}
}

// untilForced has the time-out of a detach that goes on failing. The controller counts the
// time from its first try, and once it is over no longer looks at the live node, Ready or
// not.
func (p *pass) untilForced(n *onNode) []Until {
	if n.decision.Verb != Detach || p.options.DisableForceDetachOnTimeout || !p.mayFail(n) {
		return nil
	}
	wait := p.options.MaxWaitForUnmount
	row := Until{Event: MaxWaitForUnmount, After: wait, Then: ForceDetach, Contenders: n.decision.Contenders,
		Fresh: p.remembers(n)}
	if bound := p.lookedAt(n, wait); bound > 0 {
		row.Bound = bound + CSITimeout + BackoffLast // a try that began before, and the pause after it
	}
	return []Until{row}
}

// spec is the spec that the pair's operation uses.
func (n *onNode) spec() *VolumeSpec {
	if n.desired != nil {
		return n.desired.Spec
	}
	return n.actual.Spec
}
