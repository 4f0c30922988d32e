package reconcile

import (
	"cmp"
	"slices"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/internal/sidebyside"
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
	// ForceDetach: not wanted; the detach operation starts without that look.
	ForceDetach Verb = "ForceDetach"
	// Wait: not wanted, but may not be detached yet.
	Wait Verb = "Wait"
	// MultiAttach: wanted, and held by another node.
	MultiAttach Verb = "MultiAttach"
	// Blocked: the operation cannot start.
	Blocked Verb = "Blocked"
)

// Reason is the branch of the controller that led to the verb.
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
	// Wait ends in a forced detach unless a row of Until comes before it, zero
	// otherwise.
	After time.Duration
	// VolumeAttachment is the computed name of the object that an Attach creates and a Detach
	// deletes; "" where the plugin uses none.
	VolumeAttachment string
	// Holders are the nodes that stand in the way of a MultiAttach or Blocked.
	Holders []types.NodeName
	// Contenders are the nodes, this one among them, that want the volume. The controller serves
	// one of them at random (map order) before the others.
	Contenders []types.NodeName
	// Until are the events that end the decision after the pass.
	Until []Until
	// Waited is the longest time for which a controller that is already at work may have
	// counted a Wait or a Detach: MaxWaitForUnmount where no object narrows it.
	Waited time.Duration
	// MayKeep are the pods for which a controller at work may still want a pair that no pod
	// wants in this world (World.Forgotten): the controller then leaves the pair alone.
	// Sorted.
	MayKeep []types.NamespacedName
	// Late is how much later a controller at work may come to the decision, or to a detach
	// that it depends on; zero where it is as quick as one that has just started.
	Late time.Duration
}

// NodeStatus is a node's status.volumesAttached once the pass is over.
type NodeStatus struct {
	Node            types.NodeName
	VolumesAttached []corev1.AttachedVolume
	Removed         []corev1.UniqueVolumeName
	// Contended are the entries of VolumesAttached that one of several contending nodes
	// loses: this node, or another one while this one keeps the entry.
	Contended []corev1.UniqueVolumeName
	// Flapping are the entries of VolumesAttached whose detach cannot start. The controller
	// takes them off and puts them back in each pass, so that a reader of the node may find
	// them missing.
	Flapping []corev1.UniqueVolumeName
}

// Plan is one pass of a controller that has just started.
type Plan struct {
	// Decisions are sorted by volume and node.
	Decisions []Decision
}

// Decision returns the decision about the pair; nil for a pair that is in neither world.
func (p *Plan) Decision(pair VolumeNode) *Decision {
	if i, ok := sort.Find(len(p.Decisions), func(i int) int { return pair.compare(p.Decisions[i].VolumeNode) }); ok {
		return &p.Decisions[i]
	}
	return nil
}

// OfVolume are the decisions about the volume, by node.
func (p *Plan) OfVolume(volume corev1.UniqueVolumeName) []Decision {
	from, _ := sort.Find(len(p.Decisions), func(i int) int { return cmp.Compare(volume, p.Decisions[i].Volume) })
	to := from
	for to < len(p.Decisions) && p.Decisions[to].Volume == volume {
		to++
	}
	return p.Decisions[from:to:to]
}

// pass is one run of the controller's reconcile for one volume; its decisions about one
// volume never depend on another. The pass takes each operation that it starts to be still
// running when it ends: a CSI operation calls the API server and then polls. Operations on FC
// and iSCSI, and a flexvolume driver's quick ones, may upstream end within the pass already;
// what they held back then starts.
type pass struct {
	*World
	// nodes have the volume in either world; sorted.
	nodes []onNode
	// detached are the nodes whose detach starts in this pass.
	detached []*onNode
	// mayBlock counts the nodes whose detach may fail while others wait for it, by whether
	// the volume may be on several nodes there; nil until somebody asks.
	mayBlock map[bool]int
	// A volume may be on thousands of nodes, and each of them asks. So each of these keeps the
	// result of one function, and is nil until somebody asks: free of waiting, timeouts of
	// timingOut, held of holders, sure of confirmed, stay of staying, and running of detaching,
	// by whether the volume may be on many nodes.
	free, timeouts, held, sure, stay *[]types.NodeName
	running                          map[bool][]types.NodeName
	// leave keeps the result of holdersLeave, and ends the one of operationEnds. All nodes that
	// wait have the same.
	leave *Until
	ends  map[bool]Until
	// failing counts the nodes in detached whose detach may fail.
	failing *int
	*atWork
}

// onNode has everything about the pass's volume on one node.
type onNode struct {
	VolumeNode
	actual   *AttachedVolume
	desired  *VolumeToAttach
	decision *Decision // without a verb until it is made
	fails    *bool     // what mayFail has found out
}

// on returns the pass's entry for the node.
func (p *pass) on(node types.NodeName) *onNode {
	i, _ := slices.BinarySearchFunc(p.nodes, node, func(n onNode, name types.NodeName) int { return cmp.Compare(n.Node, name) })
	return &p.nodes[i]
}

// Reconcile decides about every pair in either world.
func (w *World) Reconcile() *Plan {
	nodes := w.pairs()
	plan := &Plan{Decisions: make([]Decision, len(nodes))}
	volumes := make([]int, 0, len(nodes)+1) // where the nodes of each begin
	for i := range nodes {
		plan.Decisions[i].VolumeNode = nodes[i].VolumeNode
		nodes[i].decision = &plan.Decisions[i]
		if i == 0 || nodes[i].Volume != nodes[i-1].Volume {
			volumes = append(volumes, i)
		}
	}
	volumes = append(volumes, len(nodes))
	atWork := w.atWork()
	sidebyside.Do(len(volumes)-1, func(i int) {
		p := &pass{World: w, nodes: nodes[volumes[i]:volumes[i+1]], atWork: atWork}
		p.detachUnwanted()
		p.attachWanted()
		p.follow()
	})
	return plan
}

// pairs are the pairs in either world, sorted.
func (w *World) pairs() []onNode {
	actual, desired := w.Actual.Items(), w.Desired.Items()
	pairs := make([]onNode, 0, max(len(actual), len(desired)))
	for _, row := range actual {
		pairs = append(pairs, onNode{VolumeNode: row.VolumeNode, actual: row, desired: w.Desired.Find(row.VolumeNode)})
	}
	for _, row := range desired {
		if w.Actual.Find(row.VolumeNode) == nil {
			pairs = append(pairs, onNode{VolumeNode: row.VolumeNode, desired: row})
		}
	}
	slices.SortFunc(pairs, func(a, b onNode) int { return a.compare(b.VolumeNode) })
	return pairs
}

// detachUnwanted mirrors the first loop of reconcile for one volume.
func (p *pass) detachUnwanted() {
	var started []*onNode
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.actual == nil || n.desired != nil {
			continue
		}
		p.detach(n.actual, n.decision)
		if n.decision.Verb == Detach || n.decision.Verb == ForceDetach {
			started = append(started, n)
		}
	}
	p.detached = started
	// All operations on a volume that only one node at a time may hold share one key: the
	// first to start keeps the others away.
	if len(started) > 1 && !started[0].actual.Spec.MultiAttach() {
		contenders := namesOf(started)
		for _, n := range started {
			n.decision.Contenders = contenders
		}
	}
}

func namesOf(nodes []*onNode) []types.NodeName {
	names := make([]types.NodeName, 0, len(nodes))
	for _, n := range nodes {
		names = append(names, n.Node)
	}
	return names
}

// detach decides about a pair that nobody wants. The pass is the controller's
// first, so the time-out for unmounting has not run out.
func (p *pass) detach(row *AttachedVolume, d *Decision) {
	node := p.snapshot.Node(row.Node)
	outOfService := OutOfService(node) && p.Behaviours.Has(OutOfServiceDetaches)
	why, detachable := p.plugins.detachable(row.Volume, row.Spec)
	if row.MountedByNode && !outOfService {
		d.Verb, d.Reason = Wait, StillMounted
		if row.AssumedMounted {
			d.Reason = AssumedMounted
		}
		if detachable && p.timesOut(row.Node) {
			d.After = p.options.MaxWaitForUnmount
		}
		return
	}
	if !detachable {
		d.Verb, d.Reason = Blocked, why
		return
	}
	d.Verb, d.Reason = Detach, NotWanted
	if outOfService && p.taintCounts(row.Node) {
		d.Verb, d.Reason = ForceDetach, OutOfServiceTaint
	}
	d.VolumeAttachment = attachmentName(row.VolumeNode)
}

// attachWanted mirrors attachDesiredVolumes for one volume.
func (p *pass) attachWanted() {
	var started []*onNode
	for i := range p.nodes {
		n := &p.nodes[i]
		if n.desired == nil {
			continue
		}
		p.attach(n.desired, n.actual, n.decision)
		if n.decision.Verb == Attach {
			started = append(started, n)
		}
	}
	if len(started) < 2 || !slices.ContainsFunc(started, (*onNode).exclusive) {
		return
	}
	all := namesOf(started)
	for _, a := range started {
		// An operation on a volume for one node at a time excludes any other operation on it;
		// one on a volume for many nodes excludes only those for its own node.
		contenders := all
		if !a.exclusive() {
			contenders = nil
			for _, b := range started {
				if a == b || b.exclusive() {
					contenders = append(contenders, b.Node)
				}
			}
		}
		a.decision.Contenders = contenders
	}
}

// exclusive reports whether the node's pods want the volume as one that only one node at a
// time may hold.
func (n *onNode) exclusive() bool { return !n.desired.Spec.MultiAttach() }

func (p *pass) attach(row *VolumeToAttach, actual *AttachedVolume, d *Decision) {
	if actual != nil && actual.State == Attached {
		d.Verb, d.Reason = Keep, WantedAndAttached
		return
	}
	if running := p.detaching(row); len(running) > 0 {
		d.Verb, d.Reason, d.Holders = Blocked, OperationPending, running
		return
	}
	if !row.Spec.MultiAttach() {
		if holders := p.holders(); len(holders) > 0 {
			d.Verb, d.Reason, d.Holders = MultiAttach, AttachedElsewhere, holders
			return
		}
	}
	d.Verb, d.Reason = Attach, NotAttached
	if actual != nil {
		d.Reason = AttachUncertain
	}
	// The attach takes the handle from the spec, the detach from the unique name: a volume
	// with "^" in its handle can be attached and then never detached.
	if driver, handle, ok := row.Spec.CSI(); ok {
		d.VolumeAttachment = VolumeAttachmentName(handle, driver, row.Node)
	}
}

// detaching are the nodes whose detach, started in this pass, keeps an attach of the volume
// from starting. Two operations exclude each other where the key of either has no node, which
// it lacks where the spec is not for many nodes.
func (p *pass) detaching(row *VolumeToAttach) []types.NodeName {
	many := row.Spec.MultiAttach()
	if known, ok := p.running[many]; ok {
		return known
	}
	var nodes []types.NodeName
	for _, n := range p.detached {
		if !many || !n.actual.Spec.MultiAttach() {
			nodes = append(nodes, n.Node)
		}
	}
	if p.running == nil {
		p.running = map[bool][]types.NodeName{}
	}
	p.running[many] = nodes
	return nodes
}

// holders mirrors GetNodesForAttachedVolume: confirmed attachments only. An
// uncertain one does not hold back an attach to another node.
func (p *pass) holders() []types.NodeName {
	if p.held == nil {
		var nodes []types.NodeName
		for _, n := range p.nodes {
			if n.actual != nil && n.actual.State == Attached {
				nodes = append(nodes, n.Node)
			}
		}
		p.held = &nodes
	}
	return *p.held
}

// NodeStatus has a row for each node, sorted. It mirrors the report set: the entries that the
// node status listed at the start, less the volumes whose detach has started. An attach is
// reported only once its operation has ended, which is after this pass.
func (w *World) NodeStatus(plan *Plan) []NodeStatus {
	rows := make([]NodeStatus, 0, len(w.snapshot.Nodes))
	seen := sets.New[corev1.UniqueVolumeName]()
	for _, node := range w.snapshot.Nodes {
		clear(seen)
		row := NodeStatus{Node: types.NodeName(node.Name)}
		for _, v := range node.Status.VolumesAttached {
			if v.Name == "" || seen.Has(v.Name) {
				continue
			}
			seen.Insert(v.Name)
			pair := VolumeNode{v.Name, row.Node}
			switch d := plan.Decision(pair); {
			case d.Verb == Blocked && d.Reason != OperationPending:
				row.Flapping = append(row.Flapping, v.Name)
			case d.Verb != Detach && d.Verb != ForceDetach:
			case len(d.Contenders) > 1:
				row.Contended = append(row.Contended, v.Name)
			default:
				row.Removed = append(row.Removed, v.Name)
				continue
			}
			if row.VolumesAttached == nil {
				row.VolumesAttached = make([]corev1.AttachedVolume, 0, len(node.Status.VolumesAttached))
			}
			row.VolumesAttached = append(row.VolumesAttached, corev1.AttachedVolume{Name: v.Name, DevicePath: w.Actual.Find(pair).DevicePath})
		}
		if len(seen) == 0 {
			// There is nothing to report, and the controller never writes to the node: its
			// nameless entries stay.
			row.VolumesAttached = slices.Clone(node.Status.VolumesAttached)
		}
		slices.Sort(row.Removed)
		slices.Sort(row.Contended)
		slices.Sort(row.Flapping)
		slices.SortFunc(row.VolumesAttached, func(a, b corev1.AttachedVolume) int { return cmp.Compare(a.Name, b.Name) })
		rows = append(rows, row)
	}
	return rows
}
