package facts

import (
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// LeaderChangeActs is how long a controller's writes count as part of its start: within a few
// operations it has detached all that it takes for unwanted.
const LeaderChangeActs = 5 * reconcile.CSITimeout

// ControllerLeaseGrace is how old the last renewal of kube-controller-manager's lease may be
// before its holder counts as gone. A leader gives up before the lease's duration, which a flag
// sets, has passed; then another takes over. A released lease has a duration of one second.
func ControllerLeaseGrace(lease *coordinationv1.Lease) time.Duration {
	duration := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	return max(duration, AttacherLease) + 45*time.Second
}

// LiveDetach is an attachment that was deleted or recreated soon after the
// controller's leader changed, under a pod that ran before and still runs.
type LiveDetach struct {
	Attachment
	Pod *corev1.Pod
}

var keptLiveDetaches Kept[[]LiveDetach]

// LiveDetaches are the detaches of all pods, in the order of the attachments.
func (p *View) LiveDetaches() []LiveDetach {
	return keptLiveDetaches.Of(p, (*View).findLiveDetaches)
}

func (p *View) findLiveDetaches() []LiveDetach {
	lease, start := p.Snapshot.Lease(metav1.NamespaceSystem, reconcile.ControllerManager), p.ControllerStart()
	if start.IsZero() || lease.Spec.LeaseTransitions == nil || *lease.Spec.LeaseTransitions == 0 {
		return nil
	}
	var list []LiveDetach
	for _, va := range p.Attachments() {
		row := p.World.Desired.Find(va.VolumeNode)
		node := p.Snapshot.Node(va.Node)
		if row == nil || row.Spec.Migrated || !va.Ours() || !reconcile.NodeReady(node) || reconcile.OutOfService(node) {
			continue
		}
		for _, pod := range p.WantingPods(row) {
			if p.detachedLive(va, pod, start) {
				list = append(list, LiveDetach{va, pod})
			}
		}
	}
	return list
}

// detachedLive reports whether the attachment is one of LiveDetaches for the pod.
func (p *View) detachedLive(va Attachment, pod *corev1.Pod, start metav1.Time) bool {
	running := RunningSince(pod)
	if pod.DeletionTimestamp != nil || running.IsZero() || !running.Before(&start) || !pod.CreationTimestamp.Before(&start) {
		return false
	}
	soon := func(t metav1.Time) bool { return !t.Before(&start) && t.Sub(start.Time) <= LeaderChangeActs }
	if at := va.DeletionTimestamp; at != nil {
		return soon(*at)
	}
	// Where a CSIDriver has since made attaches necessary, the volumes are rightly attached
	// under their pods.
	driver := p.Snapshot.CSIDriver(va.Spec.Attacher)
	return soon(va.CreationTimestamp) && driver != nil && driver.CreationTimestamp.Before(&running)
}

var keptLiveDetached Kept[sets.Set[string]]

// DetachedByNewLeader reports whether the failing detach is one that the new leader asked for.
func (p *View) DetachedByNewLeader(_, effect finding.Finding) bool {
	return keptLiveDetached.Of(p, func(p *View) sets.Set[string] {
		names := sets.New[string]()
		for _, d := range p.LiveDetaches() {
			names.Insert(d.Name)
		}
		return names
	}).Has(effect.VolumeAttachment)
}

// MayBeController reports whether the writer of a status may be the controller: a program that
// contains it, or an unknown writer.
func MayBeController(writer string) bool {
	return slices.Contains([]string{"", reconcile.ControllerManager, "k3s", "kubelite"}, writer)
}
