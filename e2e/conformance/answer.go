package conformance

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Pair is a volume and a node, about which the controller decides.
type Pair = reconcile.VolumeNode

// Answer is one side's answer about a cluster.
type Answer struct {
	// Managed are the nodes whose volumes the controller attaches and detaches.
	Managed   sets.Set[types.NodeName]
	Actual    map[Pair]ActualRow
	Desired   map[Pair]DesiredRow
	Decisions map[Pair]Decision
	// Status is each node's status.volumesAttached after the pass.
	Status map[types.NodeName]StatusRow
	// Skipped has the reason why a pod volume or a VolumeAttachment is in neither world.
	Skipped map[string]reconcile.SkipReason
	// Ended are the pods that the controller treats as terminated.
	Ended sets.Set[string]

	// Lookups are only in the model's answer.
	Lookups
	// Adopted counts the parts of the controller's answer that the model was given, because
	// upstream leaves them to chance.
	Adopted map[Tolerance]int
	// forceDetachSwitch reports whether the release knows the switch, and it is set.
	forceDetachSwitch bool
}

// Spec has the parts of a volume spec by which two specs differ; the zero Spec is a nil one.
type Spec = wire.Spec

// ActualRow is a row of the actual state of the world before the pass.
type ActualRow struct {
	State      reconcile.AttachState
	Spec       Spec
	DevicePath string
	Mounted    bool
	// MountedLater is the value of Mounted once each node has been updated.
	MountedLater bool
}

// DesiredRow is a row of the desired state of the world.
type DesiredRow struct {
	Spec Spec
	// Pods are sorted and joined.
	Pods string
}

// Decision is the decision about a pair in the pass. The oracle leaves Contenders empty,
// because it shows who won.
type Decision struct {
	Verb             reconcile.Verb
	Reason           reconcile.Reason
	VolumeAttachment string
	// Holders of a MultiAttach, sorted and joined.
	Holders string
	// Warned are the pods that got the multi-attach event, sorted and joined.
	Warned string
	// Event is the beginning of that event's message.
	Event      string
	Contenders []types.NodeName
	// Forced reports whether a Wait ends in a forced detach; the oracle shows that in a pass
	// of its own.
	Forced bool
	// Bounded reports whether the holders of a MultiAttach leave within a known time, whether
	// or not their detaches fail.
	Bounded bool
	// Forgotten reports whether the controller finds out, before the time-out of a Wait, that
	// the attachment does not exist (VerifyVolumesAreAttached).
	Forgotten bool
	// Left is the state after a detach whose VolumeAttachment the API server does not delete.
	Left reconcile.AttachState
	// Updated is the verb that replaces a Wait once each node has been updated.
	Updated reconcile.Verb
}

// Held is the oracle's verb where an operation of the volume that started earlier in the same
// pass kept the pair's own detach from starting.
const Held reconcile.Verb = wire.Held

// timedOut is the oracle's reason for a forced detach after the time-out.
const timedOut reconcile.Reason = wire.TimedOut

// StatusRow is a node's volumesAttached: device paths by name. The name of a volume that is
// listed more than once includes the count.
type StatusRow map[corev1.UniqueVolumeName]string

func statusRow(list []corev1.AttachedVolume) StatusRow {
	row, seen := StatusRow{}, map[corev1.UniqueVolumeName]int{}
	for _, v := range list {
		name := v.Name
		if seen[v.Name]++; seen[v.Name] > 1 {
			name = corev1.UniqueVolumeName(fmt.Sprintf("%s (%d)", v.Name, seen[v.Name]))
		}
		row[name] = v.DevicePath
	}
	return row
}

func (r StatusRow) String() string {
	var rows []string
	for name, path := range r {
		rows = append(rows, fmt.Sprintf("%s=%q", name, path))
	}
	slices.Sort(rows)
	return "[" + strings.Join(rows, " ") + "]"
}

// Model is the answer of package reconcile for the release. Where upstream leaves something
// to chance, the model is given the oracle's result; with a nil oracle it is given nothing.
func Model(c *Cluster, mode Mode, release Release, oracle *Answer) *Answer {
	c = c.In(release)
	objects := c.Snapshot(release)
	world := reconcile.NewWorld(objects, c.Options())
	a := newAnswer()
	if oracle != nil {
		a.Adopted = chancesOf(c, mode, world).adopt(world, oracle)
	}
	a.forceDetachSwitch = c.DisableForceDetachOnTimeout && world.Behaviours.Has(reconcile.ForceDetachSwitch)
	a.Managed = world.Managed
	for _, row := range world.Actual.Items() {
		a.Actual[row.VolumeNode] = ActualRow{
			State: row.State, Spec: specOf(row.Spec), DevicePath: row.DevicePath, Mounted: row.MountedByNode,
			MountedLater: row.MountedByNode && (!row.AssumedMounted || c.node(row.Node) == nil),
		}
	}
	for _, row := range world.Desired.Items() {
		a.Desired[row.VolumeNode] = DesiredRow{Spec: specOf(row.Spec), Pods: join(row.Pods)}
	}
	plan := world.Reconcile()
	pairs := a.pairs(c)
	for _, pair := range pairs {
		if d := plan.Decision(pair); d != nil {
			a.Decisions[pair] = decisionOf(world, d)
		}
	}
	for _, s := range world.NodeStatus(plan) {
		a.Status[s.Node] = statusRow(slices.DeleteFunc(slices.Clone(s.VolumesAttached), func(v corev1.AttachedVolume) bool {
			return slices.Contains(s.Contended, v.Name) // as on the node that loses it
		}))
	}
	for _, s := range world.Skipped {
		if s.VolumeAttachment != "" {
			a.Skipped[wire.AttachmentKey(s.VolumeAttachment)] = s.Reason
		} else {
			a.Skipped[wire.PodVolumeKey(s.Pod.String(), s.PodVolume)] = s.Reason
		}
	}
	a.Lookups = lookupsOf(world, objects, pairs)
	return a
}

// pairs are each volume in either world with each node, existing or not.
func (a *Answer) pairs(c *Cluster) []Pair {
	volumes, nodes := sets.New[corev1.UniqueVolumeName](), sets.New[types.NodeName]()
	for _, node := range c.Nodes {
		nodes.Insert(types.NodeName(node.Name))
	}
	for _, pair := range keys(a.Actual, nil) {
		volumes.Insert(pair.Volume)
		nodes.Insert(pair.Node)
	}
	for _, pair := range keys(a.Desired, nil) {
		volumes.Insert(pair.Volume)
		nodes.Insert(pair.Node)
	}
	var pairs []Pair
	for volume := range volumes {
		for node := range nodes {
			pairs = append(pairs, Pair{Volume: volume, Node: node})
		}
	}
	return pairs
}

func decisionOf(world *reconcile.World, d *reconcile.Decision) Decision {
	row := Decision{
		Verb: d.Verb, Reason: d.Reason, VolumeAttachment: d.VolumeAttachment,
		Contenders: d.Contenders, Forced: d.After > 0,
	}
	switch d.Verb {
	case reconcile.MultiAttach:
		row.Holders, row.Warned = join(d.Holders), join(world.Desired.Find(d.VolumeNode).Pods)
		row.Event = world.Behaviours.MultiAttachMessage()
		row.Bounded = d.Until[0].Bound > 0
	case reconcile.Wait:
		row.Updated = reconcile.Wait
		for _, until := range d.Until {
			if until.Event == reconcile.NodeUpdate {
				row.Updated = until.Then
			}
			row.Forgotten = row.Forgotten || until.Event == reconcile.VerifySync
		}
	case reconcile.Detach, reconcile.ForceDetach:
		if isCSI(d.Volume) {
			row.Left = world.Actual.Find(d.VolumeNode).State
			if world.Behaviours.Has(reconcile.FailedDetachIsUncertain) {
				row.Left = reconcile.Uncertain
			}
		}
	default:
	}
	return row
}

func newAnswer() *Answer {
	return &Answer{
		Managed: sets.New[types.NodeName](), Actual: map[Pair]ActualRow{}, Desired: map[Pair]DesiredRow{},
		Decisions: map[Pair]Decision{}, Status: map[types.NodeName]StatusRow{}, Skipped: map[string]reconcile.SkipReason{},
		Ended: sets.New[string](),
	}
}

func specOf(s *reconcile.VolumeSpec) Spec {
	switch {
	case s == nil:
		return Spec{}
	case s.PV != nil:
		return Spec{Source: s.PV.Name, MultiAttach: s.MultiAttach(), Migrated: s.Migrated}
	default:
		return Spec{Source: s.Inline.Name, MultiAttach: s.MultiAttach()}
	}
}

// join sorts the items and joins them.
func join[T any](list []T) string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = fmt.Sprint(list[i])
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}
