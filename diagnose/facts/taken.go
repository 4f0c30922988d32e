package facts

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// clocksOfNodes is how far a node's clock may be behind the API server's. A judgement: a clock
// that is further off breaks certificates and leases first.
const clocksOfNodes = 2 * time.Minute

// Runner is a container of a pod that nobody has deleted, with the volume mounted since before
// some moment.
type Runner struct {
	Pod       *corev1.Pod
	Container string
	Started   metav1.Time
}

var keptClockBehind KeptBy[types.NodeName, time.Duration]

// clockBehind is the least by which the node's clock is behind the API server's: no container
// starts before its pod was created. A container's times are by the kubelet's clock, and a pod's
// by the API server's. The Pod of a static pod is made only after its containers have started.
func (p *View) clockBehind(node types.NodeName) time.Duration {
	return keptClockBehind.Of(p, node, func(p *View, node types.NodeName) time.Duration {
		var behind time.Duration
		for _, pod := range p.Snapshot.PodsOnNode(node) {
			if _, static := pod.Annotations[corev1.MirrorPodAnnotationKey]; static || pod.CreationTimestamp.IsZero() {
				continue
			}
			for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
				if c.State.Running != nil && !c.State.Running.StartedAt.IsZero() {
					behind = max(behind, pod.CreationTimestamp.Sub(c.State.Running.StartedAt.Time))
				}
			}
		}
		return behind
	})
}

// StartedBefore reports whether a container that started at the one time, by the node's clock,
// certainly ran at the other, by the API server's clock.
func (p *View) StartedBefore(node types.NodeName, started, at metav1.Time) bool {
	return started.Add(clocksOfNodes + p.clockBehind(node)).Before(at.Time)
}

// RunsSinceBefore returns the first such container on the pair's node; nil for none. A driver
// that is younger than the container may not have attached its volume. A PersistentVolume that
// is younger names another disk than the container has, unless the node has that disk in use.
func (p *View) RunsSinceBefore(pair reconcile.VolumeNode, at metav1.Time) *Runner {
	driver, _, _ := reconcile.ParseCSI(pair.Volume)
	d, pv, node := p.Snapshot.CSIDriver(driver), p.World.Volume(pair.Volume), p.Snapshot.Node(pair.Node)
	for _, pod := range p.World.LivePods(pair) {
		container, started := runsSince(pod)
		if container != "" && pod.DeletionTimestamp == nil && p.StartedBefore(pair.Node, started, at) &&
			(d == nil || !started.Before(&d.CreationTimestamp)) &&
			(pv == nil || !started.Before(&pv.CreationTimestamp) || node != nil && p.InUse(node, pair.Volume)) && p.ContainersUse(pod, pair.Volume) {
			return &Runner{pod, container, started}
		}
	}
	return nil
}

// runsSince is the container of the pod that has run longest, and since when.
func runsSince(pod *corev1.Pod) (name string, since metav1.Time) {
	for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		if run := c.State.Running; run != nil && !run.StartedAt.IsZero() && (name == "" || run.StartedAt.Before(&since)) {
			name, since = c.Name, run.StartedAt
		}
	}
	return name, since
}

// TakenFrom returns the container from under which the attachment is being deleted; nil for none.
// The controller deletes no attachment of a volume that a pod wants there, and the attacher does
// not ask whether it is mounted.
func (p *View) TakenFrom(va Attachment) *Runner {
	if va.DeletionTimestamp == nil || !va.Ours() || !AttacherHolds(va.VolumeAttachment) || !p.PodsKnown(p.Snapshot.Node(va.Node), *va.DeletionTimestamp) {
		return nil
	}
	return p.RunsSinceBefore(va.VolumeNode, *va.DeletionTimestamp)
}
