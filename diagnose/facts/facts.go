package facts

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// ControllerYounger reports whether the controller took its lease less than d ago: apparent drift
// may be work that it has not reached yet. It is false for hosted control planes, which show no
// lease; there the other conditions of a check must suffice.
func (p *View) ControllerYounger(d time.Duration) bool {
	start := p.ControllerStart()
	return !start.IsZero() && p.Age(start) < d
}

// ControllerJustStarted reports whether the controller may still be rebuilding its worlds.
func (p *View) ControllerJustStarted() bool { return p.ControllerYounger(ControllerGrace) }

// ControllerStart is when the controller at work took its lease; zero where no
// lease says so.
func (p *View) ControllerStart() metav1.Time {
	lease := p.Snapshot.Lease(metav1.NamespaceSystem, reconcile.ControllerManager)
	if lease == nil || lease.Spec.AcquireTime == nil {
		return metav1.Time{}
	}
	return metav1.NewTime(lease.Spec.AcquireTime.Time)
}

// BoundAt is when the pod was bound to its node: from then on both the kubelet
// and the controller work for it.
func BoundAt(pod *corev1.Pod) metav1.Time {
	if c := Condition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
		return c.LastTransitionTime
	}
	return pod.CreationTimestamp
}

// MayUseVolumes reports whether the kubelet may have mounted the pod's volumes, as
// far as the pod's status shows. It mounts them before it creates the sandbox,
// pulls an image or starts a container (Kubelet.SyncPod, WaitForAttachAndMount),
// so each of these is a sign. A pod without a sign is Pending, or the kubelet
// rejected it or ended it before its containers ran.
func MayUseVolumes(pod *corev1.Pod) bool {
	switch {
	case pod.Status.Phase != corev1.PodPending && pod.Status.Phase != corev1.PodFailed:
		return true
	case pod.Status.PodIP != "" && !pod.Spec.HostNetwork:
		return true // from its sandbox
	case HasCondition(pod, corev1.PodReadyToStartContainers):
		return true
	}
	return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses, pod.Status.EphemeralContainerStatuses), pastMounts)
}

// pastMounts reports whether the container's status shows a step after the mounts. A container
// whose end the kubelet does not know (ContainerStatusUnknown) has run only if it has a start
// time.
func pastMounts(c corev1.ContainerStatus) bool {
	ended, waiting := c.State.Terminated, c.State.Waiting
	return c.State.Running != nil || c.LastTerminationState.Terminated != nil || c.RestartCount > 0 ||
		ended != nil && (ended.Reason != "ContainerStatusUnknown" || !ended.StartedAt.IsZero()) ||
		waiting != nil && !slices.Contains(beforeMounts, waiting.Reason)
}

// RunningContainers are the names of the pod's running containers: its own, then init containers,
// as a sidecar outlives the others, and then those added for debugging. Each keeps a deleted pod,
// and so its volumes (PodTerminated).
func RunningContainers(pod *corev1.Pod) []string {
	var names []string
	for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses) {
		if c.State.Running != nil {
			names = append(names, c.Name)
		}
	}
	return names
}

// Started reports whether the pod's volumes are, or were, mounted: a container runs or has run,
// or the kubelet has reached a step after the mounts.
func Started(pod *corev1.Pod) bool {
	past := func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil ||
			c.State.Waiting != nil && !slices.Contains(beforeMounts, c.State.Waiting.Reason)
	}
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, past) || slices.ContainsFunc(pod.Status.ContainerStatuses, past)
}

// beforeMounts are the reasons of a waiting container that say nothing about the volumes. Any
// other reason, such as ImagePullBackOff, comes after the mounts.
var beforeMounts = []string{"", "ContainerCreating", "PodInitializing"}

// HasCondition reports whether the pod's condition is true.
func HasCondition(pod *corev1.Pod, condition corev1.PodConditionType) bool {
	c := Condition(pod, condition)
	return c != nil && c.Status == corev1.ConditionTrue
}

// Condition is the pod's condition of the type; nil where it has none.
func Condition(pod *corev1.Pod, of corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == of {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// Ready reports whether the pod's Ready condition is true.
func Ready(pod *corev1.Pod) bool { return HasCondition(pod, corev1.PodReady) }

// Lists reports whether the node's status.volumesAttached names the volume.
func Lists(node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	return slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == volume })
}

// VolumesAttachedWriter is the last writer of the node's status.volumesAttached, by its managed
// fields; "" where they do not show it.
func VolumesAttachedWriter(node *corev1.Node) (manager string, at metav1.Time) {
	return ListWriter(node, "volumesAttached")
}

// Registers reports whether the driver is registered on the CSINode's node.
func Registers(csiNode *storagev1.CSINode, driver string) bool {
	return csiNode != nil && slices.ContainsFunc(csiNode.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
}

// PodObject is the pod as a finding's subject.
func PodObject(pod *corev1.Pod) finding.Object {
	return finding.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

// PodNames are the pods as namespace/name, sorted.
func PodNames(pods []*corev1.Pod) []string {
	names := make([]string, 0, len(pods))
	for _, pod := range pods {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	slices.Sort(names)
	return names
}

// WantingPods are the pods behind a row of the desired state of the world.
func (p *View) WantingPods(row *reconcile.VolumeToAttach) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(row.Pods))
	for _, name := range row.Pods {
		pods = append(pods, p.Snapshot.Pod(name))
	}
	return pods
}

// ShortVolume is the name of the volume's PV, or else its unique name.
func (p *View) ShortVolume(name corev1.UniqueVolumeName) string {
	if pv := p.World.Volume(name); pv != nil {
		return pv.Name
	}
	return string(name)
}

// ShortVolumeOf is the name of the PersistentVolume that the attachment names. Several
// PersistentVolumes may name one disk.
func (p *View) ShortVolumeOf(va Attachment) string {
	if name := VolumeName(va.VolumeAttachment); p.Snapshot.Volume(name) != nil {
		return name
	}
	return p.ShortVolume(va.Volume)
}

// List formats the names for a sentence.
func List(names []corev1.UniqueVolumeName) string { return fmt.Sprintf("%v", names) }

// AttachedList shows the node's status.volumesAttached.
func AttachedList(volumes []corev1.AttachedVolume) string {
	names := make([]corev1.UniqueVolumeName, 0, len(volumes))
	for _, v := range volumes {
		names = append(names, v.Name)
	}
	return List(names)
}

// ageless is an age that no object has: the moment from which it counts is not known.
const ageless = 100 * 365 * 24 * time.Hour

// unknownTime replaces a moment or an age that is not known.
const unknownTime = "an unknown time"

// Rounded is a duration as a person would say it.
func Rounded(d time.Duration) string {
	if d > ageless {
		return unknownTime
	}
	unit := time.Second
	switch {
	case d >= 48*time.Hour:
		hours := int(d.Round(time.Hour).Hours())
		if hours%24 == 0 {
			return fmt.Sprintf("%dd", hours/24)
		}
		return fmt.Sprintf("%dd%dh", hours/24, hours%24)
	case d >= time.Hour:
		unit = time.Minute
	}
	text := d.Round(unit).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Alike is a clause: how many more pods wait than the one in the message; "" for none.
func Alike(pods []*corev1.Pod) string {
	switch len(pods) {
	case 1:
		return ""
	case 2:
		return "another pod waits like it"
	default:
		return fmt.Sprintf("%d other pods wait like it", len(pods)-1)
	}
}

// NodeName is the node's name.
func NodeName(node *corev1.Node) types.NodeName { return types.NodeName(node.Name) }

// BoolToInt is 1 for true, for sorting and for gauges.
func BoolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// PodName is namespace/name.
func PodName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// InUse reports whether the node's status.volumesInUse names the volume.
func InUse(node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	return slices.Contains(node.Status.VolumesInUse, volume)
}

// Latest is the last of the times.
func Latest(times ...metav1.Time) metav1.Time {
	var last metav1.Time
	for _, t := range times {
		if t.After(last.Time) {
			last = t
		}
	}
	return last
}

// Stamp is a moment as the API writes it.
func Stamp(t metav1.Time) string {
	if t.IsZero() {
		return unknownTime
	}
	return t.UTC().Format(time.RFC3339)
}

// ReadyCondition is the node's Ready condition, nil where it has none.
func ReadyCondition(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// ReadyText describes the node's Ready condition.
func ReadyText(node *corev1.Node) string {
	c := ReadyCondition(node)
	if c == nil {
		return "missing"
	}
	return fmt.Sprintf("%s since %s (%s)", c.Status, Stamp(c.LastTransitionTime), c.Reason)
}

// NotReadySince is when the node stopped being Ready; zero where it is Ready or nothing shows the
// time.
func NotReadySince(node *corev1.Node) metav1.Time {
	if node == nil || reconcile.NodeReady(node) || ReadyCondition(node) == nil {
		return metav1.Time{}
	}
	return ReadyCondition(node).LastTransitionTime
}

// ClaimKey is the key of a claim of the pod.
func ClaimKey(pod *corev1.Pod, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: name}
}
