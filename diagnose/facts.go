package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// ControllerSettles is how long after a change of its leader the controller may
// still be rebuilding its worlds from the objects: 15 s to read them in a large
// cluster, one operation of up to 2 min for each volume, and some margin.
const ControllerSettles = 3 * time.Minute

// listsSettle is how old a fact must be before another list may contradict it:
// lists are read one after the other, and what began in between can be in one
// and not yet in the other.
const listsSettle = time.Minute

// controllerYounger says that the controller at work took its lease less than d
// ago: what looks like drift may be a controller that has not come to it yet.
// Hosted control planes show no lease; there the question has no answer, and
// the other gates must do.
func (p *Pass) controllerYounger(d time.Duration) bool {
	start := p.controllerStart()
	return !start.IsZero() && p.Age(start) < d
}

func (p *Pass) controllerJustStarted() bool { return p.controllerYounger(ControllerSettles) }

// controllerStart is when the controller at work took its lease; zero where no
// lease says so.
func (p *Pass) controllerStart() metav1.Time {
	lease := p.Snapshot.Lease("kube-system", "kube-controller-manager")
	if lease == nil || lease.Spec.AcquireTime == nil {
		return metav1.Time{}
	}
	return metav1.NewTime(lease.Spec.AcquireTime.Time)
}

// boundAt is when the pod was bound to its node: from then on both the kubelet
// and the controller work for it.
func boundAt(pod *corev1.Pod) metav1.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime
		}
	}
	return pod.CreationTimestamp
}

// started says that the pod's volumes are, or were, mounted: a container runs or
// has run, or the kubelet has come to what it does only after the mounts.
func started(pod *corev1.Pod) bool {
	past := func(c corev1.ContainerStatus) bool {
		return c.State.Running != nil || c.State.Terminated != nil || c.LastTerminationState.Terminated != nil ||
			c.State.Waiting != nil && !slices.Contains(beforeMounts, c.State.Waiting.Reason)
	}
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, past) || slices.ContainsFunc(pod.Status.ContainerStatuses, past)
}

// beforeMounts are the reasons of a waiting container that say nothing about
// the volumes. Every other one, such as ImagePullBackOff, comes after them.
var beforeMounts = []string{"", "ContainerCreating", "PodInitializing"}

func ready(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// lastAttachFailure is when the controller last told the pod that an attach had
// failed; zero where no event says so.
func (p *Pass) lastAttachFailure(pod *corev1.Pod) metav1.Time {
	var last metav1.Time
	for _, e := range p.Snapshot.EventsOf(pod.UID) {
		at := eventTime(e)
		if e.Reason == "FailedAttachVolume" && at.After(last.Time) {
			last = at
		}
	}
	return last
}

func eventTime(e *corev1.Event) metav1.Time {
	switch {
	case e.Series != nil && !e.Series.LastObservedTime.IsZero():
		return metav1.NewTime(e.Series.LastObservedTime.Time)
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	case !e.EventTime.IsZero():
		return metav1.NewTime(e.EventTime.Time)
	default:
		return e.CreationTimestamp
	}
}

// lists says whether the node's status.volumesAttached names the volume.
func lists(node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	return slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return v.Name == volume })
}

// volumesAttachedWriter is who last wrote the node's status.volumesAttached,
// as its managed fields have it; "" where they do not say.
func volumesAttachedWriter(node *corev1.Node) (manager string, at metav1.Time) {
	return listWriter(node, "volumesAttached")
}

// registers says whether the driver is registered on the CSINode's node.
func registers(csiNode *storagev1.CSINode, driver string) bool {
	return csiNode != nil && slices.ContainsFunc(csiNode.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver })
}

func podObject(pod *corev1.Pod) Object {
	return Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}
}

func podNames(pods []*corev1.Pod) []string {
	names := make([]string, 0, len(pods))
	for _, pod := range pods {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	slices.Sort(names)
	return names
}

// wantingPods are the pods behind a row of the desired state of the world.
func (p *Pass) wantingPods(row *reconcile.VolumeToAttach) []*corev1.Pod {
	pods := make([]*corev1.Pod, 0, len(row.Pods))
	for _, name := range row.Pods {
		pods = append(pods, p.Snapshot.Pod(name))
	}
	return pods
}

// shortVolume is the volume by the name people know: its PV's, else its unique
// name.
func (p *Pass) shortVolume(name corev1.UniqueVolumeName) string {
	if pv := p.World.Volume(name); pv != nil {
		return pv.Name
	}
	return string(name)
}

func list(names []corev1.UniqueVolumeName) string { return fmt.Sprintf("%v", names) }

func attachedList(volumes []corev1.AttachedVolume) string {
	names := make([]corev1.UniqueVolumeName, 0, len(volumes))
	for _, v := range volumes {
		names = append(names, v.Name)
	}
	return list(names)
}

// rounded is a duration as a person would say it.
func rounded(d time.Duration) string {
	unit := time.Second
	if d >= time.Hour {
		unit = time.Minute
	}
	text := d.Round(unit).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	return text
}

// alike says how many pods there are beside the one that a message names.
func alike(pods []*corev1.Pod) string {
	switch len(pods) {
	case 1:
		return ""
	case 2:
		return "; another pod waits like it"
	default:
		return fmt.Sprintf("; %d other pods wait like it", len(pods)-1)
	}
}

func nodeName(node *corev1.Node) types.NodeName { return types.NodeName(node.Name) }

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func podName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

// inUse says whether the node's status.volumesInUse names the volume.
func inUse(node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	return slices.Contains(node.Status.VolumesInUse, volume)
}

func latest(times ...metav1.Time) metav1.Time {
	var last metav1.Time
	for _, t := range times {
		if t.After(last.Time) {
			last = t
		}
	}
	return last
}

// stamp is a moment as the API writes it.
func stamp(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }

func readyCondition(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

func readyText(node *corev1.Node) string {
	c := readyCondition(node)
	if c == nil {
		return "missing"
	}
	return fmt.Sprintf("%s since %s (%s)", c.Status, stamp(c.LastTransitionTime), c.Reason)
}

// notReadySince is when the node ceased to be Ready; zero where it is Ready or
// nothing says since when.
func notReadySince(node *corev1.Node) metav1.Time {
	if node == nil || reconcile.NodeReady(node) || readyCondition(node) == nil {
		return metav1.Time{}
	}
	return readyCondition(node).LastTransitionTime
}

func claimKey(pod *corev1.Pod, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: name}
}
