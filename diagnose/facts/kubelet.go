package facts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// LeaseStale reports whether the kubelet has stopped renewing its lease: its node is about to
// become NotReady or, where no controller runs, stays Ready. It is false without a lease.
func (p *View) LeaseStale(node types.NodeName) bool {
	lease := p.Snapshot.Lease(corev1.NamespaceNodeLease, string(node))
	return lease != nil && lease.Spec.RenewTime != nil && p.Snapshot.TakenAt.Sub(lease.Spec.RenewTime.Time) > AttacherLeaseGrace
}

// PodsKnown reports whether a kubelet at work after that moment wrote the statuses of the node's
// pods. On a node that is silent, has just come back or was recreated they may be older: its
// machine may have been off since, and then no container runs.
func (p *View) PodsKnown(node *corev1.Node, after metav1.Time) bool {
	if !reconcile.NodeReady(node) || !p.Lasted(Latest(node.CreationTimestamp, ReadyCondition(node).LastTransitionTime), PodsReported) {
		return false
	}
	lease := p.Snapshot.Lease(corev1.NamespaceNodeLease, node.Name)
	return lease == nil || lease.Spec.RenewTime == nil || !p.LeaseStale(NodeName(node)) && lease.Spec.RenewTime.After(after.Time)
}

// HeartbeatStale reports whether the kubelet's writes of the node's status fail, while
// its lease keeps the node Ready.
func (p *View) HeartbeatStale(node *corev1.Node) bool {
	c := ReadyCondition(node)
	return c != nil && !c.LastHeartbeatTime.IsZero() && p.Age(c.LastHeartbeatTime) > KubeletReports
}

// ContainersUse reports whether a container of the pod uses the volume as the volume's mode
// allows. The kubelet ignores any other volume, though the controller attaches it.
func (p *View) ContainersUse(pod *corev1.Pod, volume corev1.UniqueVolumeName) bool {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if name, _, err := p.World.PodVolume(pod, v); err == nil && name == volume && Referenced(pod, v.Name) && WrongMode(pod, v.Name, p.BoundVolume(pod, v)) == "" {
			return true
		}
	}
	return false
}

// PodsOf are the pods of the list, each once.
func PodsOf(list []PodVolume) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(list))
	for _, v := range list {
		pods = append(pods, v.Pod)
	}
	return EachOnce(pods)
}

// The minor releases from which the kubelet's behaviour differs.
const (
	// SilentTimeout: a wait that merely times out leaves no event (117412, and the open issue
	// 127004).
	SilentTimeout KubeletRelease = 28
	// PermissionEvents: a slow change of ownership leaves events (130398).
	PermissionEvents KubeletRelease = 33
	// LimitRejection: a pod for which the node has no room is rejected (132933). OneClaimTwice:
	// a pod that names one claim twice no longer fails (122140).
	LimitRejection KubeletRelease = 35
	OneClaimTwice  KubeletRelease = 35
)

// ParseKubelet reads the version of a kubelet; the result is not Known where it cannot.
func ParseKubelet(text string) KubeletRelease {
	v, err := version.ParseGeneric(text)
	if err != nil || v.Major() != 1 {
		return 0
	}
	return KubeletRelease(v.Minor())
}

// Before reports whether the kubelet is known to be older than the release.
func (k KubeletRelease) Before(r KubeletRelease) bool { return k != 0 && k < r }

// FirstTime is when the event was first seen.
func FirstTime(e *corev1.Event) metav1.Time {
	if !e.FirstTimestamp.IsZero() {
		return e.FirstTimestamp
	}
	if !e.EventTime.IsZero() {
		return metav1.NewTime(e.EventTime.Time)
	}
	return snapshot.EventTime(e)
}

// KubeletRelease is the minor release of a node's kubelet; zero where it is not known. The
// kubelet's events differ between releases.
type KubeletRelease uint

// Known reports whether the version could be read.
func (k KubeletRelease) Known() bool { return k != 0 }

// Referenced mirrors GetPodVolumeNames: a container of any kind mounts the
// volume or uses its device.
func Referenced(pod *corev1.Pod, name string) bool {
	uses := func(mounts []corev1.VolumeMount, devices []corev1.VolumeDevice) bool {
		return slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return m.Name == name }) ||
			slices.ContainsFunc(devices, func(d corev1.VolumeDevice) bool { return d.Name == name })
	}
	for c := range Containers(pod) {
		if uses(c.VolumeMounts, c.VolumeDevices) {
			return true
		}
	}
	return slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool {
		return uses(c.VolumeMounts, c.VolumeDevices)
	})
}
