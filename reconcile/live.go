package reconcile

import (
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

// taintCounts reports whether the out-of-service taint, which the controller has seen on
// the node, makes it detach without a last look at the node (verifySafeToDetach).
func (w *World) taintCounts(node types.NodeName) bool {
	return !w.Behaviours.Has(TaintReadsNode) || OutOfService(w.liveNode(node))
}
