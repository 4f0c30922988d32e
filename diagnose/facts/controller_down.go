package facts

import (
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var keptControllerDown Kept[*coordinationv1.Lease]

// ControllerDown is the lease of kube-controller-manager where it has expired and nothing shows a
// leader; nil where a controller may be at work. One without leader election, or out of sight,
// has no lease. A controller that comes back decides by what it then finds: until then nothing
// proves that it has forgotten anything.
func (p *View) ControllerDown() *coordinationv1.Lease {
	return keptControllerDown.Of(p, (*View).findControllerDown)
}

func (p *View) findControllerDown() *coordinationv1.Lease {
	lease := p.Snapshot.Lease(metav1.NamespaceSystem, reconcile.ControllerManager)
	if lease == nil || lease.Spec.RenewTime == nil {
		return nil
	}
	since, grace := Renewed(lease), ControllerLeaseGrace(lease)
	if leasesRead(p).Sub(since.Time) <= grace || p.ControllerRuns() || controllerSeen(p).After(since.Add(grace)) {
		return nil
	}
	return lease
}

// ControllerRuns reports whether a kube-controller-manager renews its lease. One without
// leader election, or out of sight, may run and is not seen.
func (p *View) ControllerRuns() bool {
	lease := p.Snapshot.Lease(metav1.NamespaceSystem, reconcile.ControllerManager)
	return lease != nil && lease.Spec.RenewTime != nil && p.Age(Renewed(lease)) <= ControllerLeaseGrace(lease)
}

// leasesRead is when the last lease other than the controller's was renewed: the leases were read
// then or later, and lists in files may be of different times. Without another lease it is the
// snapshot's time.
func leasesRead(p *View) metav1.Time {
	var last metav1.Time
	others := 0
	for _, lease := range p.Snapshot.Leases {
		if isManager(lease) || lease.Spec.RenewTime == nil {
			continue
		}
		others++
		last = Latest(last, Renewed(lease))
	}
	if others == 0 {
		return metav1.NewTime(p.Snapshot.TakenAt)
	}
	return last
}

func isManager(lease *coordinationv1.Lease) bool {
	return lease.Namespace == metav1.NamespaceSystem && lease.Name == reconcile.ControllerManager
}

// controllerSeen is the last sign of an attach/detach controller at work. One may run without
// leader election beside the lease of an earlier one.
func controllerSeen(p *View) metav1.Time {
	var last metav1.Time
	for _, va := range p.Attachments() {
		if va.Ours() {
			last = Latest(last, va.CreationTimestamp) // anybody may delete one
		}
	}
	for _, node := range p.Snapshot.Nodes {
		if writer, at := VolumesAttachedWriter(node); writer == reconcile.ControllerManager {
			last = Latest(last, at)
		}
	}
	for _, e := range p.Snapshot.Events {
		if e.Source.Component == "attachdetach-controller" || e.ReportingController == "attachdetach-controller" {
			last = Latest(last, snapshot.EventTime(e))
		}
	}
	return last
}
