package facts

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// LostWait is a single-node volume that a lost node still holds and that pods wait for.
type LostWait struct {
	Attachment
	// Waiters are on other nodes; the one that waits longest comes first.
	Waiters []*corev1.Pod
	// Holders are Terminating on the lost node and still count as users. Where there are none,
	// the controller waits for Wait before it detaches by force; 0 where it never does.
	Holders []*corev1.Pod
	Wait    time.Duration
}

// LostWaits are in the order of the attachments. An attachment that was just recreated is left
// out: it is not known yet what happened to its predecessor.
func (p *View) LostWaits() []LostWait {
	var list []LostWait
	for _, va := range p.Attachments() {
		node := p.Snapshot.Node(va.Node)
		if !va.Holds() || !va.Ours() || !p.Lost(node) {
			continue
		}
		w := LostWait{Attachment: va, Waiters: p.KeptFrom(va.VolumeNode)}
		if len(w.Waiters) == 0 {
			continue
		}
		if p.Age(va.CreationTimestamp) < ListsGrace && p.Recreated(va) {
			continue
		}
		w.Holders = p.World.LivePods(va.VolumeNode)
		if len(w.Holders) > 0 {
			if AllDeleting(w.Holders) {
				list = append(list, w)
			}
			continue // a pod that nobody has deleted has the older right
		}
		row, decision := p.World.Actual.Find(va.VolumeNode), p.Plan.Decision(va.VolumeNode)
		if row == nil || decision == nil || decision.Verb != reconcile.Wait || (node != nil && row.AssumedMounted) {
			continue // not known to be mounted there: nothing to wait for
		}
		w.Wait = decision.After
		list = append(list, w)
	}
	return list
}

// shutDownBefore is how far apart a node's last readiness and the end of a pod by its shutdown
// may be. The kubelet ends the pods when the shutdown begins, and the API server notes the
// silence later; the margin is for the grace periods of nodes. A pod that an earlier shutdown
// ended stays listed.
const shutDownBefore = NodeMonitorGrace + 550*time.Second

// ShutDown is a pod that the kubelet ended because it shut its node down, within shutDownBefore
// of the node's loss; nil where there is none.
func (p *View) ShutDown(node *corev1.Node) *corev1.Pod {
	lost := NotReadySince(node)
	if lost.IsZero() {
		return nil
	}
	for _, pod := range p.Snapshot.PodsOnNode(NodeName(node)) {
		ended := endedAt(pod)
		if pod.Status.Phase == corev1.PodFailed && slices.Contains(shutDownReasons, pod.Status.Reason) && ContainsAny(pod.Status.Message, "shut") &&
			!ended.IsZero() && lost.Sub(ended.Time).Abs() <= shutDownBefore {
			return pod
		}
	}
	return nil
}

// shutDownReasons are the kubelet's: the first of 1.22 and later, the second of 1.20 and 1.21.
var shutDownReasons = []string{"Terminated", "Shutdown"}

// Recreated reports whether the VolumeAttachment was created after its node was lost, for a pod
// that had run there before: somebody deleted the first one, and the controller created another
// for the same pod.
func (p *View) Recreated(va Attachment) bool {
	lost := NotReadySince(p.Snapshot.Node(va.Node))
	return !lost.IsZero() && va.CreationTimestamp.After(lost.Time) && !Deleting(va.VolumeAttachment) && va.Ours() &&
		p.World.Desired.Find(va.VolumeNode) != nil && len(p.RanBefore(va.VolumeNode, lost)) > 0
}

// RecreatedOnLost reports whether the VolumeAttachment was recreated on a node that is still lost, long
// enough ago to tell: va-recreated-on-dead-node.
func (p *View) RecreatedOnLost(va Attachment) bool {
	return p.Recreated(va) && p.Lost(p.Snapshot.Node(va.Node)) && p.Age(va.CreationTimestamp) >= ListsGrace
}

// RanBefore are the pods that still want the volume on the node and had it
// mounted there before the moment.
func (p *View) RanBefore(pair reconcile.VolumeNode, moment metav1.Time) []*corev1.Pod {
	return slices.DeleteFunc(p.WantingPods(p.World.Desired.Find(pair)), func(pod *corev1.Pod) bool {
		bound := BoundAt(pod)
		return !Started(pod) || !bound.Before(&moment)
	})
}

// RenewedLease is the evidence of when the node's kubelet last renewed its lease; nil where
// there is no lease.
func (p *View) RenewedLease(node types.NodeName) []finding.Evidence {
	lease := p.Snapshot.Lease(corev1.NamespaceNodeLease, string(node))
	if lease == nil || lease.Spec.RenewTime == nil {
		return nil
	}
	renewed := Renewed(lease)
	return []finding.Evidence{{Object: "lease/kube-node-lease/" + string(node), Field: "spec.renewTime", Value: fmt.Sprintf("%s, %s ago", Stamp(renewed), Rounded(p.Age(renewed)))}}
}

// TakesNoPlugin reports whether no node plugin can run on the node. Either it has no kubelet, or
// it is a machine of EKS Fargate: that runs one pod and no DaemonSet, and only the provider
// configures and restarts its kubelet.
func TakesNoPlugin(node *corev1.Node) bool {
	return Virtual(node) || node.Labels["eks.amazonaws.com/compute-type"] == "fargate"
}

// Virtual reports whether there is no kubelet behind the node: whatever runs the pods brings
// their volumes itself.
func Virtual(node *corev1.Node) bool {
	return node.Labels["type"] == "virtual-kubelet" || slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == "virtual-kubelet.io/provider"
	})
}
