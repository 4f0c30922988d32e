package reconcile

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// A volume for one node at a time has one operation at a time, whatever the node
// (nestedPendingOperations). The functions here work out what that means for the nodes that
// are not served.

// lookedAt is the latest moment at which the controller looks at a pair that nobody wants and
// whose time to wait is over; zero where it may never look. While an operation on the volume
// runs, for whatever node, the controller passes the pair over, and its clock does not even
// start (IsOperationSafeToRetry, before SetDetachRequestTime). An attach that fails leaves
// the pair one pass in which it is looked at. A detach that fails need not: after each pause
// map order decides which of the two comes first.
func (p *pass) lookedAt(n *onNode, wait time.Duration) time.Duration {
	if p.mayBeBlocked(n) {
		return 0
	}
	multi := n.spec().MultiAttach()
	attaches := slices.ContainsFunc(p.nodes, func(other onNode) bool {
		return other.desired != nil && other.Node != n.Node && (!multi || !other.spec().MultiAttach()) && p.mayAttach(&other, n)
	})
	if !attaches {
		return wait
	}
	if takes := p.operations(n.Volume, []types.NodeName{n.Node}); takes > 0 {
		return wait + takes
	}
	return 0
}

// mayBeBlocked reports whether the pair has to wait for a detach from another node that may
// fail. The count of such detaches is made once for all nodes: a volume may be attached to
// thousands.
func (p *pass) mayBeBlocked(n *onNode) bool {
	blocks := func(n *onNode) bool { return n.desired == nil && p.mayDetach(n) && p.mayFail(n) }
	if p.mayBlock == nil {
		p.mayBlock = map[bool]int{}
		for i := range p.nodes {
			if other := &p.nodes[i]; blocks(other) {
				p.mayBlock[other.spec().MultiAttach()]++
			}
		}
	}
	multi := n.spec().MultiAttach()
	others := p.mayBlock[false]
	if !multi {
		others += p.mayBlock[true]
	}
	if others > 0 && blocks(n) && !multi {
		others--
	}
	return others > 0
}

// mayDetach reports whether the controller may detach a pair that nobody wants although its
// node goes on listing the volume as mounted.
func (p *pass) mayDetach(n *onNode) bool {
	switch d := n.decision; {
	case d.Verb == Detach || d.Verb == ForceDetach:
		return true
	case d.Verb != Wait:
		return false
	default:
		return d.Reason == AssumedMounted && p.snapshot.Node(d.Node) != nil || d.After > 0
	}
}

// mayAttach reports whether an attach for the pair may run while the other pair waits. It may
// not where the other pair is what holds it back.
func (p *pass) mayAttach(n, other *onNode) bool {
	switch d := n.decision; d.Verb {
	case Attach:
		return true
	case MultiAttach, Blocked:
		return !slices.Contains(d.Holders, other.Node)
	case Keep:
		holds := other.actual.State == Attached && p.verified(other) == 0
		return p.verified(n) > 0 && !holds
	default:
		return false
	}
}

// mayFail reports whether a detach of the pair may fail or take long. Without a
// VolumeAttachment there is nothing to delete, and on FC and iSCSI nothing to do.
func (p *pass) mayFail(n *onNode) bool {
	if n.fails == nil {
		fails := p.detachMayFail(n)
		n.fails = &fails
	}
	return *n.fails
}

func (p *pass) detachMayFail(n *onNode) bool {
	switch plugin, _, _ := splitUniqueName(n.Volume); plugin {
	case FCPlugin, ISCSIPlugin:
		return false
	case CSIPlugin:
		name := attachmentName(n.VolumeNode)
		return name == "" || p.snapshot.VolumeAttachment(name) != nil || !p.snapshot.Complete(snapshot.VolumeAttachments)
	default:
		return true
	}
}

// waiting are the nodes, n among them, whose pods wait for the volume. One of them gets it as
// soon as it is free. It is nil where no other node waits.
func (p *pass) waiting(n *onNode) []types.NodeName {
	if n.desired == nil || !n.exclusive() {
		return nil
	}
	if p.free == nil {
		var all []types.NodeName
		for i := range p.nodes {
			if other := &p.nodes[i]; p.waits(other) {
				all = append(all, other.Node)
			}
		}
		p.free = &all
	}
	nodes := *p.free
	if i, among := slices.BinarySearch(nodes, n.Node); !among {
		nodes = slices.Insert(slices.Clone(nodes), i, n.Node)
	}
	if len(nodes) < 2 {
		return nil
	}
	return nodes
}

// waits reports whether the pods on the node wait for the volume to be free.
func (p *pass) waits(n *onNode) bool {
	switch d := n.decision; {
	case n.desired == nil || !n.exclusive():
		return false
	case d.Verb == MultiAttach:
		return true
	case d.Verb == Blocked:
		return d.Reason == OperationPending
	default:
		return d.Verb == Keep && p.verified(n) > 0
	}
}

// timingOut are the nodes, n among them, whose time to wait for an unmount is over at the
// same moment: the controller serves one of them first. It is nil where there is no other.
func (p *pass) timingOut(n *onNode) []types.NodeName {
	if n.actual.Spec.MultiAttach() {
		return nil
	}
	if p.timeouts == nil {
		var all []types.NodeName
		for i := range p.nodes {
			if d := p.nodes[i].decision; d.Verb == Wait && d.After > 0 && p.verified(&p.nodes[i]) == 0 {
				all = append(all, d.Node)
			}
		}
		p.timeouts = &all
	}
	if len(*p.timeouts) < 2 {
		return nil
	}
	return *p.timeouts
}

// operations is how long the operations on the nodes take together; zero where nothing bounds
// them, as with a flexvolume driver. Those on a volume for one node at a time run one after
// the other.
func (p *pass) operations(volume corev1.UniqueVolumeName, nodes []types.NodeName) time.Duration {
	if len(nodes) == 0 {
		return p.take(volume, 0, false)
	}
	return p.take(volume, len(nodes), p.on(nodes[0]).spec().MultiAttach())
}

// take is operations for n nodes. together reports whether they run side by side.
func (p *pass) take(volume corev1.UniqueVolumeName, n int, together bool) time.Duration {
	if together && n > 0 {
		n = 1
	}
	switch plugin, _, _ := splitUniqueName(volume); plugin {
	case CSIPlugin, FCPlugin, ISCSIPlugin:
		return time.Duration(n) * CSITimeout
	default:
		return 0
	}
}

// detaches is how long the detaches take after which none of the nodes may hold the volume
// any more. A detach that fails, if only because the API server does not answer, leaves the
// volume Attached in older releases, and where several take turns the failed one may be tried
// again before the others.
func (p *pass) detaches(volume corev1.UniqueVolumeName, nodes []types.NodeName) time.Duration {
	fail := func(node types.NodeName) bool { return p.mayFail(p.on(node)) }
	switch {
	case len(nodes) > 0 && !p.Behaviours.Has(FailedDetachIsUncertain):
		return 0
	case len(nodes) > 1 && slices.ContainsFunc(nodes, fail) && !p.on(nodes[0]).spec().MultiAttach():
		return 0
	default:
		return p.operations(volume, nodes)
	}
}
