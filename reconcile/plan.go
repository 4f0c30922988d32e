package reconcile

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Verb is what the controller does about a pair in its first pass.
type Verb string

// The verbs; each pair in either world has exactly one.
const (
	// Keep: wanted and attached.
	Keep Verb = "Keep"
	// Attach: wanted; the attach operation starts.
	Attach Verb = "Attach"
	// Detach: not wanted; the detach operation starts, and looks once more at
	// the live node before it acts.
	Detach Verb = "Detach"
	// ForceDetach: as Detach, without that look.
	ForceDetach Verb = "ForceDetach"
	// Wait: not wanted, but may not be detached yet.
	Wait Verb = "Wait"
	// MultiAttach: wanted, and held by another node.
	MultiAttach Verb = "MultiAttach"
	// Blocked: the operation cannot start.
	Blocked Verb = "Blocked"
)

// Reason says which branch of the controller led to the verb.
type Reason string

// The reasons for a decision.
const (
	// Keep
	WantedAndAttached Reason = "WantedAndAttached"
	// Attach
	NotAttached     Reason = "NotAttached"
	AttachUncertain Reason = "AttachUncertain" // it may be attached already: the attach confirms it
	// Detach
	NotWanted Reason = "NotWanted"
	// ForceDetach
	OutOfServiceTaint Reason = "OutOfServiceTaint"
	// Wait
	StillMounted   Reason = "StillMounted"   // the node lists it in volumesInUse
	AssumedMounted Reason = "AssumedMounted" // until the node's next update; see AttachedVolume
	// MultiAttach
	AttachedElsewhere Reason = "MultiAttach" // confirmed on another node
	// Blocked
	NoPlugin          Reason = "NoPlugin"          // the controller has no such plugin
	InvalidVolumeName Reason = "InvalidVolumeName" // the unique name has no plugin in it
	OperationPending  Reason = "OperationPending"  // a detach of the volume from another node runs
)

// Decision is what the controller's first pass does about one pair.
type Decision struct {
	VolumeNode
	Verb   Verb
	Reason Reason
	// After is counted from the controller's start: MaxWaitForUnmount where a
	// Wait ends in a forced detach, zero otherwise.
	After time.Duration
	// VolumeAttachment is the object that an Attach creates and a Detach
	// deletes, by its computed name; "" where the plugin uses none.
	VolumeAttachment string
	// Holders are the nodes that stand in the way of a MultiAttach or Blocked.
	Holders []types.NodeName
	// Contenders are the nodes, this one among them, of which the controller
	// serves one at random (map order) before the others.
	Contenders []types.NodeName
	// Until is what ends the decision after the pass.
	Until []Until
	// Waited is for how long a controller that has not just started may have
	// counted a Wait already: MaxWaitForUnmount where no object tells more.
	Waited time.Duration
}

// NodeStatus is a node's status.volumesAttached once the pass is over.
type NodeStatus struct {
	Node            types.NodeName
	VolumesAttached []corev1.AttachedVolume
	Removed         []corev1.UniqueVolumeName
}

// Plan is one pass of a controller that has just started.
type Plan struct {
	// Decisions are sorted by volume and node.
	Decisions []Decision
	// NodeStatus has a row for each node, sorted.
	NodeStatus []NodeStatus

	byPair map[VolumeNode]int
}

// Decision returns nil for a pair that is in neither world.
func (p *Plan) Decision(pair VolumeNode) *Decision {
	if i, ok := p.byPair[pair]; ok {
		return &p.Decisions[i]
	}
	return nil
}

// pass is one run of the controller's reconcile, as far as it is about one
// volume: what it does about one never depends on another. Operations that it
// starts are taken to be still running when it ends: a CSI operation calls the
// API server and then polls. Those on FC and iSCSI, and a flexvolume driver's
// quick ones, may upstream end within the pass already; what they held back then
// starts.
type pass struct {
	*World
	decisions map[VolumeNode]*Decision
	// nodes are those that have the volume in either world, sorted.
	nodes []types.NodeName
}

// Reconcile decides about every pair in either world.
func (w *World) Reconcile() *Plan {
	pairs := w.pairs()
	plan := &Plan{Decisions: make([]Decision, 0, len(pairs)), byPair: make(map[VolumeNode]int, len(pairs))}
	p := &pass{World: w, decisions: map[VolumeNode]*Decision{}}
	for len(pairs) > 0 {
		volume := pairs[0].Volume
		clear(p.decisions)
		p.nodes = p.nodes[:0]
		for len(pairs) > 0 && pairs[0].Volume == volume {
			p.nodes, pairs = append(p.nodes, pairs[0].Node), pairs[1:]
		}
		p.detachUnwanted(volume)
		p.attachWanted(volume)
		p.follow()
		for _, node := range p.nodes {
			pair := VolumeNode{volume, node}
			plan.byPair[pair] = len(plan.Decisions)
			plan.Decisions = append(plan.Decisions, *p.decisions[pair])
		}
	}
	plan.NodeStatus = w.nodeStatus(plan)
	return plan
}

// pairs are those in either world, sorted.
func (w *World) pairs() []VolumeNode {
	pairs := slices.AppendSeq(make([]VolumeNode, 0, max(len(w.Actual), len(w.Desired))), maps.Keys(w.Actual))
	for pair := range w.Desired {
		if w.Actual[pair] == nil {
			pairs = append(pairs, pair)
		}
	}
	slices.SortFunc(pairs, VolumeNode.compare)
	return pairs
}

// detachUnwanted mirrors the first loop of reconcile for one volume.
func (p *pass) detachUnwanted(volume corev1.UniqueVolumeName) {
	var started []types.NodeName
	for _, node := range p.nodes {
		pair := VolumeNode{volume, node}
		row := p.Actual[pair]
		if row == nil || p.Desired[pair] != nil {
			continue
		}
		d := p.detach(row)
		p.decisions[pair] = d
		if d.Verb == Detach || d.Verb == ForceDetach {
			started = append(started, node)
		}
	}
	// The operations of a volume that one node at a time may hold share one
	// key: the first to start keeps the others away.
	if len(started) > 1 && !p.Actual[VolumeNode{volume, started[0]}].Spec.MultiAttach() {
		for _, node := range started {
			p.decisions[VolumeNode{volume, node}].Contenders = started
		}
	}
}

// detach decides about a pair that nobody wants. The pass is the controller's
// first, so the time-out for unmounting has not run out.
func (p *pass) detach(row *AttachedVolume) *Decision {
	d := &Decision{VolumeNode: row.VolumeNode}
	node := p.snapshot.Node(row.Node)
	outOfService := OutOfService(node)
	why, detachable := p.plugins.detachable(row.Volume, row.Spec)
	if row.MountedByNode && !outOfService {
		d.Verb, d.Reason = Wait, StillMounted
		if row.AssumedMounted {
			d.Reason = AssumedMounted
		}
		if detachable && !NodeReady(node) && !p.options.DisableForceDetachOnTimeout {
			d.After = p.options.MaxWaitForUnmount
		}
		return d
	}
	if !detachable {
		d.Verb, d.Reason = Blocked, why
		return d
	}
	d.Verb, d.Reason = Detach, NotWanted
	if outOfService {
		d.Verb, d.Reason = ForceDetach, OutOfServiceTaint
	}
	d.VolumeAttachment = attachmentName(row.VolumeNode)
	return d
}

// attachWanted mirrors attachDesiredVolumes for one volume.
func (p *pass) attachWanted(volume corev1.UniqueVolumeName) {
	var started []*VolumeToAttach
	for _, node := range p.nodes {
		row := p.Desired[VolumeNode{volume, node}]
		if row == nil {
			continue
		}
		d := p.attach(row)
		p.decisions[row.VolumeNode] = d
		if d.Verb == Attach {
			started = append(started, row)
		}
	}
	for _, a := range started {
		var contenders []types.NodeName
		for _, b := range started {
			// An operation on a volume for one node at a time excludes any other
			// on it, one for many nodes only its own node's.
			if a == b || !a.Spec.MultiAttach() || !b.Spec.MultiAttach() {
				contenders = append(contenders, b.Node)
			}
		}
		if len(contenders) > 1 {
			p.decisions[a.VolumeNode].Contenders = contenders
		}
	}
}

func (p *pass) attach(row *VolumeToAttach) *Decision {
	d := &Decision{VolumeNode: row.VolumeNode}
	actual := p.Actual[row.VolumeNode]
	if actual != nil && actual.State == Attached {
		d.Verb, d.Reason = Keep, WantedAndAttached
		return d
	}
	if running := p.detaching(row); len(running) > 0 {
		d.Verb, d.Reason, d.Holders = Blocked, OperationPending, running
		return d
	}
	if !row.Spec.MultiAttach() {
		if holders := p.holders(row.Volume); len(holders) > 0 {
			d.Verb, d.Reason, d.Holders = MultiAttach, AttachedElsewhere, holders
			return d
		}
	}
	d.Verb, d.Reason = Attach, NotAttached
	if actual != nil {
		d.Reason = AttachUncertain
	}
	// The attach takes the handle from the spec, the detach from the unique
	// name: one with a "^" can be attached and then never detached.
	if driver, handle, ok := row.Spec.CSI(); ok {
		d.VolumeAttachment = VolumeAttachmentName(handle, driver, row.Node)
	}
	return d
}

// detaching are the nodes whose detach, started in this pass, keeps an attach
// of the volume from starting. A pending operation matches another one where
// either has no node in its key, which is where a spec is not for many nodes.
func (p *pass) detaching(row *VolumeToAttach) []types.NodeName {
	var nodes []types.NodeName
	for _, node := range p.nodes {
		pair := VolumeNode{row.Volume, node}
		d := p.decisions[pair]
		if d == nil || (d.Verb != Detach && d.Verb != ForceDetach) {
			continue
		}
		if !row.Spec.MultiAttach() || !p.Actual[pair].Spec.MultiAttach() {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// holders mirrors GetNodesForAttachedVolume: confirmed attachments only. An
// uncertain one does not hold back an attach to another node.
func (p *pass) holders(volume corev1.UniqueVolumeName) []types.NodeName {
	var nodes []types.NodeName
	for _, node := range p.nodes {
		if row := p.Actual[VolumeNode{volume, node}]; row != nil && row.State == Attached {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// nodeStatus mirrors the report set: what the node status listed at the start,
// less the volumes whose detach has started. An attach is reported only once
// its operation has ended, which is after this pass.
func (w *World) nodeStatus(plan *Plan) []NodeStatus {
	rows := make([]NodeStatus, 0, len(w.snapshot.Nodes))
	for _, node := range w.snapshot.Nodes {
		row := NodeStatus{Node: types.NodeName(node.Name)}
		seen := sets.New[corev1.UniqueVolumeName]()
		for _, v := range node.Status.VolumesAttached {
			if v.Name == "" || seen.Has(v.Name) {
				continue
			}
			seen.Insert(v.Name)
			pair := VolumeNode{v.Name, row.Node}
			if d := plan.Decision(pair); d.Verb == Detach || d.Verb == ForceDetach {
				row.Removed = append(row.Removed, v.Name)
				continue
			}
			row.VolumesAttached = append(row.VolumesAttached, corev1.AttachedVolume{Name: v.Name, DevicePath: w.Actual[pair].DevicePath})
		}
		if len(seen) == 0 {
			// There is nothing to report, and the node is never written to: what
			// nameless entries it has stay.
			row.VolumesAttached = slices.Clone(node.Status.VolumesAttached)
		}
		slices.Sort(row.Removed)
		slices.SortFunc(row.VolumesAttached, func(a, b corev1.AttachedVolume) int { return cmp.Compare(a.Name, b.Name) })
		rows = append(rows, row)
	}
	return rows
}
