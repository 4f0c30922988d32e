package facts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// AttachLimit returns how many volumes of the driver may be attached to the
// CSINode's node, and false where the driver gives no limit. A count of 0 is a
// limit: the scheduler then places no volume of the driver there (kube-scheduler,
// plugin NodeVolumeLimits, csi.go). The kubelet itself never writes a 0.
func AttachLimit(csiNode *storagev1.CSINode, driver string) (int, bool) {
	if csiNode == nil {
		return 0, false
	}
	for _, d := range csiNode.Spec.Drivers {
		if d.Name == driver && d.Allocatable != nil && d.Allocatable.Count != nil {
			return int(*d.Allocatable.Count), true
		}
	}
	return 0, false
}

// NodeDriver is a driver on a node.
type NodeDriver struct{ Node, Driver string }

// Load is the volumes of one driver on one node, attached or wanted.
type Load struct {
	Node   *corev1.Node
	Driver string
	// Limit is how many volumes of the driver fit on the node; it counts only where Limited.
	Limit   int
	Limited bool
	// Held are the attached volumes, including those that are being detached, which take up room
	// until that is done. wanted are the other volumes that pods want there. Both are sorted,
	// without repetitions.
	Held, wanted []corev1.UniqueVolumeName
	// Refused are the tasks that the driver refused because the node has no room.
	Refused []Task
	// Waits are the attaches without such a refusal that have waited longer than AttachGrace.
	Waits []Task
	// Freeing reports that a detach is under way, which makes room.
	Freeing bool
}

var keptLoads Kept[map[NodeDriver]*Load]

// Loads are the loads of all nodes and drivers that have any attachment.
func (p *View) Loads() map[NodeDriver]*Load { return keptLoads.Of(p, (*View).findLoads) }

func (p *View) findLoads() map[NodeDriver]*Load {
	loads := make(map[NodeDriver]*Load, len(p.Snapshot.Nodes))
	for _, va := range p.Snapshot.VolumeAttachments {
		key := NodeDriver{va.Spec.NodeName, va.Spec.Attacher}
		l := loads[key]
		if l == nil {
			l = &Load{Node: p.Snapshot.Node(types.NodeName(key.Node)), Driver: key.Driver}
			l.Limit, l.Limited = AttachLimit(p.Snapshot.CSINode(types.NodeName(key.Node)), key.Driver)
			loads[key] = l
		}
		pair, ok := p.TaskPair(Task{VolumeAttachment: va})
		if !ok {
			pair.Volume = corev1.UniqueVolumeName(va.Name) // its volume is not known, and takes up room all the same
		}
		if va.Status.Attached {
			l.Held = append(l.Held, pair.Volume)
		}
		if va.DeletionTimestamp != nil && p.Age(*va.DeletionTimestamp) < NoAnswerGrace {
			l.Freeing = true
		}
	}
	for _, l := range loads {
		slices.Sort(l.Held)
		l.Held = slices.Compact(l.Held)
	}
	for _, row := range p.World.Desired.Items() {
		driver, _, _ := row.Spec.CSI()
		if l := loads[NodeDriver{string(row.Node), driver}]; l != nil && !l.Holds(row.Volume) {
			l.wanted = append(l.wanted, row.Volume)
		}
	}
	for _, l := range loads {
		slices.Sort(l.wanted)
	}
	for _, driver := range p.Attachers() {
		for _, t := range p.Tasks(driver) {
			if t.DeletionTimestamp == nil {
				p.loadTask(loads[NodeDriver{t.Spec.NodeName, driver}], t)
			}
		}
	}
	return loads
}

// Holds reports whether the volume is attached.
func (l *Load) Holds(volume corev1.UniqueVolumeName) bool {
	_, held := slices.BinarySearch(l.Held, volume)
	return held
}

func (p *View) loadTask(l *Load, t Task) {
	refusal, known := AttachRefusal(l.Driver, t.Failure)
	switch {
	case known && refusal.Meaning == driverwords.AttachLimit:
		if p.Lasted(t.Since, RefusalGrace) && p.Age(t.Failure.Time) < AttacherSilent {
			l.Refused = append(l.Refused, t)
		}
	case p.Lasted(t.Since, AttachGrace) && (t.Failure == nil || Unanswered(l.Driver, t.Failure.Message)):
		l.Waits = append(l.Waits, t)
	}
}

// WaitingForRoom are the pods on the node that wait for a volume of the driver that is not
// attached there, the longest first.
func (p *View) WaitingForRoom(l *Load) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, volume := range l.wanted {
		pods = append(pods, p.WaitingHere(reconcile.VolumeNode{Volume: volume, Node: NodeName(l.Node)})...)
	}
	return LongestFirst(EachOnce(pods))
}

// All is the number of volumes that are attached or wanted.
func (l *Load) All() int { return len(l.Held) + len(l.wanted) }

// ResourceExhausted is the gRPC code with which a driver reports that the node can take no more
// volumes.
const ResourceExhausted = 8
