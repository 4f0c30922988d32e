package facts

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// readyIsSpared has the first release of each minor whose controller detaches nothing by force
// from a node that is Ready (110721).
var readyIsSpared = []string{"1.24.9", "1.25.0"}

// UntilUnmounted is a clause: how long the controller waits for a kubelet to unmount a volume
// that no pod on its node wants any more, and what it does then. The release, the controller's
// flags, the Ready condition and the out-of-service taint decide (reconcile in the controller's
// reconciler.go).
func (v *View) UntilUnmounted(node *corev1.Node) string {
	wait, ends := v.World.WaitsForUnmount(node)
	ready := reconcile.NodeReady(node)
	switch {
	case ends && wait == 0:
		return "the controller detaches it immediately, because the node has the out-of-service taint"
	case ready && reconcile.FixedAfter(v.Snapshot.Source.ServerVersion, "", readyIsSpared) != "":
		return fmt.Sprintf("the controller waits %s for that, and then detaches it, mounted or not", Rounded(wait))
	case ready:
		return "while the node is Ready the controller waits for that without a time limit"
	case ends:
		return fmt.Sprintf("the controller detaches it by force %s after the last pod there is gone, unless the node returns", Rounded(wait))
	default:
		return "the controller waits for that without a time limit, because it is told not to detach by force (--disable-force-detach-on-timeout)"
	}
}
