package conformance

import (
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// modes are the ways in which the cluster of a seed is compared. The plain one,
// in which the controller leaves nothing to chance but the order of its maps,
// is always among them.
func modes(seed uint64) []Mode {
	switch seed % 4 {
	case 0:
		return []Mode{{}, {TimedOut: true}}
	case 2:
		return []Mode{{}, {Free: true}}
	default:
		return []Mode{{}}
	}
}

// gatesOf are the gates that a controller of the release can be started with at another value
// than the release's own, each with that value.
func gatesOf(release Release) map[string]bool {
	gates := map[string]bool{}
	for _, gate := range reconcile.Gates() {
		for _, on := range []bool{false, true} {
			if len(reconcile.Deciding(string(release), map[string]bool{gate.Name: on})) > 0 {
				gates[gate.Name] = on
			}
		}
	}
	return gates
}

// gatedReleases has one release for each set of gates and of in-tree plugins behind them. The
// others are compared where they are named (-releases).
var gatedReleases = []Release{"v1.26.15", "v1.29.15", "v1.30.14", "v1.35.4"}

// someOf sets each gate in every second cluster.
func someOf(gates map[string]bool, seed uint64) map[string]bool {
	random := rand.New(rand.NewPCG(seed, 2)) //nolint:gosec // which clusters are compared must not change
	some := map[string]bool{}
	for _, gate := range reconcile.Gates() { // in an order that stays
		if on, known := gates[gate.Name]; known && random.IntN(2) == 0 {
			some[gate.Name] = on
		}
	}
	return some
}

// lateNews are the behaviours that depend on objects of the API server that the controller's
// cache does not have yet. Each is asked in the mode in which it changes a decision.
var lateNews = map[reconcile.Behaviour]Mode{
	reconcile.TimeoutReadsNode: {TimedOut: true},
	reconcile.TaintReadsNode:   {},
}

// newsOf are nodes as the API server may have them while the controller's cache has those of
// the cluster: some have become Ready or fallen silent, were taken out of service or put
// back, are gone or have come again. None has any volume in use any more, so that the last
// look before a detach, which every release takes, finds nothing.
func newsOf(c *Cluster, seed uint64) []*corev1.Node {
	random := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // which clusters are compared must not change
	cached := slices.Clone(c.Nodes)
	for _, name := range []string{"n1", "n2", "n3", "n4", "gone"} {
		if !slices.ContainsFunc(cached, func(n *corev1.Node) bool { return n.Name == name }) {
			node := &corev1.Node{}
			node.Name = name
			cached = append(cached, node)
		}
	}
	var live []*corev1.Node
	for _, node := range cached {
		if random.IntN(6) == 0 && len(live) > 0 {
			continue
		}
		node = node.DeepCopy()
		node.Status.VolumesInUse = nil
		if random.IntN(2) == 0 {
			ready := []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionTrue, corev1.ConditionUnknown}[random.IntN(3)]
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}
		}
		switch random.IntN(3) {
		case 0:
			node.Spec.Taints = nil
		case 1:
			node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
		}
		live = append(live, node)
	}
	return live
}
