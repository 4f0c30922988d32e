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

// timesOut reports whether the time-out detaches what the node has mounted (forceDetach
// in reconcile). A Node that is gone is as good as one that is not Ready.
func (w *World) timesOut(node types.NodeName) bool {
	if w.options.DisableForceDetachOnTimeout || NodeReady(w.snapshot.Node(node)) {
		return false
	}
	return !w.Behaviours.Has(TimeoutReadsNode) || !NodeReady(w.liveNode(node))
}

// WaitsForUnmount is how long the controller waits until it detaches what the node has
// still mounted and no pod there wants: 0 where the out-of-service taint spares it the
// wait, and ends is false where it waits for as long as the node is as it is.
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

// taintCounts reports whether the out-of-service taint, which the controller has seen on
// the node, makes it detach without a last look at the node (verifySafeToDetach).
func (w *World) taintCounts(node types.NodeName) bool {
	return !w.Behaviours.Has(TaintReadsNode) || OutOfService(w.liveNode(node))
}
