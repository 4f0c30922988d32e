package facts

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// CountsApart is the least time between the reading of the objects and the second reading of
// kube-controller-manager's metrics. An attach looks at its VolumeAttachment again within
// AttachPoll, so the second counts have each volume that the controller attached by then. The
// margin is for the jitter of that pause and for the controller's watch.
const CountsApart = reconcile.AttachPoll + 2*time.Second

var keptCountedWhole Kept[sets.Set[string]]

// uncounted reports whether the controller's actual state of the world lacks the pair: it
// counts as many volumes of the driver as there are others that it must have. The
// VolumeAttachment must be one that the controller would detach immediately if it had it.
//
// The counts were read twice, before and after the objects. Where a volume was being attached
// or detached in between, they differ from each other or from the objects.
func (p *View) uncounted(pair reconcile.VolumeNode, va *storagev1.VolumeAttachment) bool {
	start := p.ControllerStart()
	if driver, _, ok := reconcile.ParseCSI(pair.Volume); !ok || start.IsZero() || va.CreationTimestamp.Sub(start.Time) <= reconcile.ClocksDiffer || !keptCountedWhole.Of(p, (*View).findCountedWhole).Has(driver) {
		return false
	}
	return !va.CreationTimestamp.After(p.Snapshot.TakenAt.Add(-time.Second)) // dates have no fractions
}

// findCountedWhole finds the drivers whose volumes the controller counts exactly as the objects
// require.
func (p *View) findCountedWhole() sets.Set[string] {
	whole := sets.New[string]()
	m := p.Snapshot.Manager
	if m == nil || m.Last == nil || m.First.Before(p.Snapshot.TakenAt.Add(-reconcile.ClocksDiffer)) || m.Last.Sub(p.Snapshot.TakenAt) < CountsApart || len(p.Snapshot.Gaps) > 0 {
		return whole
	}
	lease := p.Snapshot.Lease(metav1.NamespaceSystem, reconcile.ControllerManager)
	if lease == nil || lease.Spec.HolderIdentity == nil || *lease.Spec.HolderIdentity != m.Identity {
		return whole
	}
	certain, desired := map[string]int{}, map[string]int{}
	for _, row := range p.World.Desired.Items() {
		driver, _, ok := reconcile.ParseCSI(row.Volume)
		if !ok {
			continue
		}
		desired[driver]++
		if p.certainlyHeld(row.VolumeNode, row) {
			certain[driver]++
		}
	}
	for _, h := range m.Held {
		driver, ok := reconcile.DriverOfPlugin(h.Plugin)
		if ok && h.Actual != nil && h.Desired != nil && *h.Actual == certain[driver] && *h.Desired == desired[driver] {
			whole.Insert(driver)
		}
	}
	return whole
}

// certainlyHeld reports whether the controller has counted the pair since before the objects were
// read. A pod runs with the volume, the controller lists it as attached, and its VolumeAttachment
// is older. The controller counts only rows with a spec: one that it took over from
// volumesAttached has a spec if a pod wanted the volume then.
func (p *View) certainlyHeld(pair reconcile.VolumeNode, row *reconcile.VolumeToAttach) bool {
	node, va := p.Snapshot.Node(pair.Node), p.Snapshot.VolumeAttachment(AttachmentName(pair))
	if va == nil || !Holds(va) || !reconcile.NodeReady(node) || reconcile.OutOfService(node) || !p.Lists(node, pair.Volume) || !p.InUse(node, pair.Volume) {
		return false
	}
	if writer, _ := VolumesAttachedWriter(node); !MayBeController(writer) {
		return false
	}
	start, before := p.ControllerStart(), p.Snapshot.TakenAt.Add(-reconcile.ClocksDiffer)
	own := va.CreationTimestamp.Sub(start.Time) > reconcile.ClocksDiffer
	return va.CreationTimestamp.Time.Before(before) && slices.ContainsFunc(p.WantingPods(row), func(pod *corev1.Pod) bool {
		since := RunningSince(pod)
		return pod.DeletionTimestamp == nil && !since.IsZero() && since.Time.Before(before) &&
			(own || start.Sub(BoundAt(pod).Time) > reconcile.ClocksDiffer)
	})
}
