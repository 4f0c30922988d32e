package diagnose

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// kubeletReports is how long a kubelet that lives may take to write its node's
// status: every 10 s where something has changed, every 5 min, in some releases
// 7.5, where nothing has or where it is set so; the rest is margin.
const kubeletReports = 10 * time.Minute

// reportingNodes are the nodes whose kubelets have been there long enough for
// their volumesInUse to mean something, as far as the objects show.
func (p *Pass) reportingNodes() []*corev1.Node {
	return p.remember().reporting.get(func() []*corev1.Node {
		return slices.DeleteFunc(slices.Clone(p.Snapshot.Nodes), func(node *corev1.Node) bool {
			return !reconcile.NodeReady(node) || !p.World.Managed.Has(nodeName(node)) || virtual(node) || p.leaseStale(nodeName(node)) ||
				p.Age(latest(node.CreationTimestamp, readyCondition(node).LastTransitionTime)) < kubeletReports
		})
	})
}

// leaseStale says that the kubelet has ceased to renew its lease: it is about to
// be taken for lost. Without a lease nothing is known.
func (p *Pass) leaseStale(node types.NodeName) bool {
	lease := p.Snapshot.Lease(corev1.NamespaceNodeLease, string(node))
	return lease != nil && lease.Spec.RenewTime != nil && p.Snapshot.TakenAt.Sub(lease.Spec.RenewTime.Time) > leaseSettles
}

// heartbeatStale says that the kubelet's writes of the node's status fail, while
// its lease keeps the node Ready.
func (p *Pass) heartbeatStale(node *corev1.Node) bool {
	c := readyCondition(node)
	return c != nil && !c.LastHeartbeatTime.IsZero() && p.Age(c.LastHeartbeatTime) > kubeletReports
}

// containersUse says that a container of the pod mounts the volume. One that
// none does the kubelet passes over, though the controller attaches it.
func (p *Pass) containersUse(pod *corev1.Pod, volume corev1.UniqueVolumeName) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if name, _, err := p.World.PodVolume(pod, v); err == nil && name == volume && referenced(pod, v.Name) {
			return true
		}
	}
	return false
}

// unlisted are the volumes that are attached to the node for pods there and that
// its volumesInUse does not list, with those of the pods that pass the test and
// whose containers mount them; the pods that have been there longest come first.
func (p *Pass) unlisted(node *corev1.Node, vas []attachment, test func(*corev1.Pod, attachment) bool) []podVolume {
	var list []podVolume
	for _, va := range vas {
		if inUse(node, va.Volume) || !va.holds() || !va.ours() {
			continue // as nearly all are
		}
		row := p.World.Desired[va.VolumeNode]
		if row == nil {
			continue
		}
		for _, pod := range p.wantingPods(row) {
			if test(pod, va) && p.containersUse(pod, va.Volume) {
				list = append(list, podVolume{pod, va.Volume, p.shortVolume(va.Volume)})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b podVolume) int { return boundAt(a.pod).Compare(boundAt(b.pod).Time) })
	return list
}

// podsOf are the pods of the list, each once.
func podsOf(list []podVolume) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(list))
	for _, v := range list {
		pods = append(pods, v.pod)
	}
	return eachOnce(pods)
}
