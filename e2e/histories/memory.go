package histories

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/oracle/wire"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// otherMemory says how the controller's worlds differ, for the volume, from those that the
// model makes from the objects; "" where they are alike. That an assumed mount has ended with
// an update of the node is part of the model's answer, and no difference. A mount that ended
// with the node is one: a controller that starts later cannot know of it.
func (m *moment) otherMemory(volume corev1.UniqueVolumeName) string {
	if m.justStarted() {
		return ""
	}
	hasNode := func(pair reconcile.VolumeNode) bool {
		return slices.ContainsFunc(m.Nodes, func(n *corev1.Node) bool { return n.Name == string(pair.Node) })
	}
	known := map[reconcile.VolumeNode]bool{}
	for _, row := range m.Actual {
		pair := pairOf(row.Pair)
		if pair.Volume != volume {
			continue
		}
		known[pair] = true
		switch mine := m.world.Actual.Find(pair); {
		case mine == nil:
			return "an attachment that no object shows"
		case string(mine.State) != row.State:
			return row.State + ", not " + string(mine.State)
		case (mine.Spec == nil) != (row.Spec == wire.Spec{}):
			return "whether it has the spec"
		case mine.MountedByNode != row.Mounted && (!mine.AssumedMounted || !hasNode(pair)):
			return "whether it is mounted"
		}
	}
	for _, row := range m.world.Actual.Items() {
		if row.Volume == volume && !known[row.VolumeNode] {
			return "an attachment that it has forgotten or never heard of"
		}
	}
	clear(known)
	for _, row := range m.Desired {
		if pair := pairOf(row.Pair); pair.Volume == volume {
			known[pair] = true
			if m.world.Desired.Find(pair) == nil {
				return "wanted, and by no pod"
			}
		}
	}
	for _, row := range m.world.Desired.Items() {
		if row.Volume == volume && !known[row.VolumeNode] {
			return "not wanted, in spite of a pod"
		}
	}
	return ""
}

// justStarted reports whether the controller has only the memory that it reads now.
func (m *moment) justStarted() bool { return m.At == m.Started }

// pending reports whether an operation on the volume runs.
func (m *moment) pending(volume corev1.UniqueVolumeName) bool {
	return slices.ContainsFunc(m.Operations, func(op wire.Operation) bool { return op.Volume == string(volume) && op.Pending })
}

// busy reports whether an operation on the volume runs, or has failed and waits.
func (m *moment) busy(volume corev1.UniqueVolumeName) bool {
	for _, op := range m.Operations {
		if op.Volume == string(volume) && (op.Pending || op.Until > m.At) {
			return true
		}
	}
	return false
}
