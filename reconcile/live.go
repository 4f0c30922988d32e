package reconcile

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// liveNode is the node as the API server has it, nil where it has none.
func (w *World) liveNode(name types.NodeName) *corev1.Node {
	if w.options.LiveNodes == nil {
		return w.snapshot.Node(name)
	}
	return w.options.LiveNodes[name]
}

// timesOut reports whether the time-out detaches a volume that the node has mounted
// (forceDetach in reconcile). A Node that is gone counts as one that is not Ready.
func (w *World) timesOut(node types.NodeName) bool {
	if w.options.DisableForceDetachOnTimeout || NodeReady(w.snapshot.Node(node)) {
		return false
	}
	return !w.Behaviours.Has(TimeoutReadsNode) || !NodeReady(w.liveNode(node))
}

// WaitsForUnmount is how long the controller waits before it detaches a volume that the node
// still has mounted and no pod there wants: 0 where the out-of-service taint makes it detach
// without waiting. ends is false where it waits for as long as the node stays as it is.
func (w *World) WaitsForUnmount(node *corev1.Node) (wait time.Duration, ends bool) {
	switch {
	case OutOfService(node) && w.Behaviours.Has(OutOfServiceDetaches):
		return 0, true
	case node == nil:
		return w.options.MaxWaitForUnmount, !w.options.DisableForceDetachOnTimeout
	default:
		return w.options.MaxWaitForUnmount, w.timesOut(types.NodeName(node.Name))
	}
}

// taintCounts reports whether the out-of-service taint, which the controller has seen on the
// node, makes it detach without reading the node once more (verifySafeToDetach).
func (w *World) taintCounts(node types.NodeName) bool {
	return !w.Behaviours.Has(TaintReadsNode) || OutOfService(w.liveNode(node))
}
