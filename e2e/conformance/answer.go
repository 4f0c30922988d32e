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

// Pair is what the controller decides about.
type Pair = reconcile.VolumeNode

// Answer is what one side says about a cluster.
type Answer struct {
	// Managed are the nodes that the controller cares for.
	Managed   sets.Set[types.NodeName]
	Actual    map[Pair]ActualRow
	Desired   map[Pair]DesiredRow
	Decisions map[Pair]Decision
	// Status is each node's status.volumesAttached after the pass.
	Status map[types.NodeName]StatusRow
	// Skipped says why a pod volume or a VolumeAttachment is in no world.
	Skipped map[string]reconcile.SkipReason
}

// Spec is what tells volume specs apart; the zero Spec is a nil one.
type Spec = wire.Spec

// ActualRow is a row of the actual state of the world before the pass.
type ActualRow struct {
	State      reconcile.AttachState
	Spec       Spec
	DevicePath string
	Mounted    bool
	// MountedLater is Mounted once each node has been updated.
	MountedLater bool
}

// DesiredRow is a row of the desired state of the world.
type DesiredRow struct {
	Spec Spec
	// Pods are sorted and joined.
	Pods string
}

// Decision is what happens to a pair in the pass. The oracle leaves Contenders
// empty: it shows who won.
type Decision struct {
	Verb             reconcile.Verb
	Reason           reconcile.Reason
	VolumeAttachment string
	// Holders of a MultiAttach, sorted and joined.
	Holders string
	// Warned are the pods that got the multi-attach event, sorted and joined.
	Warned string
	// Event is how the message of that event begins.
	Event      string
	Contenders []types.NodeName
	// Forced says that a Wait ends in a forced detach; the oracle shows it in a
	// pass of its own.
	Forced bool
}

// Held is the oracle's verb where an operation of the volume that started
// before in the same pass kept the pair's own detach from starting.
const Held reconcile.Verb = wire.Held

// timedOut is the oracle's reason for a forced detach after the time-out.
const timedOut reconcile.Reason = wire.TimedOut

// StatusRow is a node's volumesAttached: device paths by name. What is listed
// more than once has its count in its name.
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

// Model is the answer of package reconcile for the release.
func Model(c *Cluster, release Release) (*Answer, *reconcile.World) {
	world := reconcile.NewWorld(c.Snapshot(release), c.Options())
	plan := world.Reconcile()
	a := newAnswer()
	a.Managed = world.Managed
	for pair, row := range world.Actual {
		a.Actual[pair] = ActualRow{
			State: row.State, Spec: specOf(row.Spec), DevicePath: row.DevicePath, Mounted: row.MountedByNode,
			MountedLater: row.MountedByNode && (!row.AssumedMounted || !hasNode(c, pair.Node)),
		}
	}
	for pair, row := range world.Desired {
		a.Desired[pair] = DesiredRow{Spec: specOf(row.Spec), Pods: join(row.Pods)}
	}
	for _, d := range plan.Decisions {
		row := Decision{
			Verb: d.Verb, Reason: d.Reason, VolumeAttachment: d.VolumeAttachment,
			Contenders: d.Contenders, Forced: d.After > 0,
		}
		if d.Verb == reconcile.MultiAttach {
			row.Holders, row.Warned = join(d.Holders), join(world.Desired[d.VolumeNode].Pods)
			row.Event = world.Behaviours.MultiAttachMessage()
		}
		a.Decisions[d.VolumeNode] = row
	}
	for _, s := range plan.NodeStatus {
		a.Status[s.Node] = statusRow(s.VolumesAttached)
	}
	for _, s := range world.Skipped {
		if s.VolumeAttachment != "" {
			a.Skipped[wire.AttachmentKey(s.VolumeAttachment)] = s.Reason
		} else {
			a.Skipped[wire.PodVolumeKey(s.Pod.String(), s.PodVolume)] = s.Reason
		}
	}
	return a, world
}

func newAnswer() *Answer {
	return &Answer{
		Managed: sets.New[types.NodeName](), Actual: map[Pair]ActualRow{}, Desired: map[Pair]DesiredRow{},
		Decisions: map[Pair]Decision{}, Status: map[types.NodeName]StatusRow{}, Skipped: map[string]reconcile.SkipReason{},
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

func hasNode(c *Cluster, name types.NodeName) bool {
	return slices.ContainsFunc(c.Nodes, func(n *corev1.Node) bool { return n.Name == string(name) })
}

// join sorts what it joins.
func join[T any](list []T) string {
	names := make([]string, len(list))
	for i := range list {
		names[i] = fmt.Sprint(list[i])
	}
	slices.Sort(names)
	return strings.Join(names, ",")
}
