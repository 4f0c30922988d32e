package facts

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// ControllerLeaseGrace is how old the last renewal of kube-controller-manager's lease may be
// before its holder counts as gone. A leader gives up before the lease's duration, which a flag
// sets, has passed; then another takes over. A released lease has a duration of one second.
func ControllerLeaseGrace(lease *coordinationv1.Lease) time.Duration {
	duration := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return max(duration, attacherLease) + 45*time.Second
}

// MayBeController reports whether the writer of a status may be the controller: a program that
// contains it, or an unknown writer.
func MayBeController(writer string) bool {
	return slices.Contains([]string{"", reconcile.ControllerManager, "k3s", "kubelite"}, writer)
}
