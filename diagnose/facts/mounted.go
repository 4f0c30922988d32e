package facts

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// MountProof is whether, since when and how the objects prove that all volumes of a pod are
// mounted.
type MountProof struct {
	Yes   bool
	Since metav1.Time
	How   string
}

// provenByWaiting are reasons of a waiting container that can only follow the wait for the
// volumes in the same life of the pod.
var provenByWaiting = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable",
	"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "PreCreateHookError", "PreStartHookError", "PostStartHookError",
}

// MountsProven looks for any step that the kubelet takes only once all volumes of the pod are
// mounted. An ended container proves nothing where the condition PodReadyToStartContainers is
// false: the machine may have restarted since. events are the pod's, oldest first.
func (p *View) MountsProven(pod *corev1.Pod, events []*corev1.Event) MountProof {
	status := pod.Status
	statuses := slices.Concat(status.InitContainerStatuses, status.ContainerStatuses, status.EphemeralContainerStatuses)
	for _, c := range statuses {
		if c.State.Running != nil {
			return MountProof{true, c.State.Running.StartedAt, "container " + c.Name + " runs"}
		}
	}
	for _, c := range statuses {
		if c.State.Waiting != nil && slices.Contains(provenByWaiting, c.State.Waiting.Reason) {
			return MountProof{true, metav1.Time{}, fmt.Sprintf("container %s waits for something that comes later (%s)", c.Name, c.State.Waiting.Reason)}
		}
	}
	if c := Condition(pod, corev1.PodReadyToStartContainers); c != nil {
		if c.Status == corev1.ConditionTrue {
			return MountProof{true, c.LastTransitionTime, "condition PodReadyToStartContainers"}
		}
	} else {
		switch {
		case Started(pod):
			return MountProof{true, metav1.Time{}, "a container has run"}
		case status.PodIP != "" && !pod.Spec.HostNetwork:
			return MountProof{true, metav1.Time{}, "the pod has an address"}
		}
	}
	if !p.Snapshot.CompleteIn(snapshot.Events, pod.Namespace) { // a mount may have failed since
		return MountProof{}
	}
	mount := LastOf(events, "FailedMount", "FailedMapVolume")
	for _, later := range []struct {
		event *corev1.Event
		how   string
	}{{LastOf(events, "FailedCreatePodSandBox"), "the kubelet has come to the pod's sandbox"}, {p.Pulls(pod, events), "the kubelet pulls an image"}} {
		if e := later.event; e != nil && (mount == nil || snapshot.EventTime(mount).Time.Before(snapshot.EventTime(e).Time)) {
			return MountProof{true, metav1.Time{}, later.how}
		}
	}
	return MountProof{}
}

// pullTakes is how long the pull of an image may explain that no container runs. A judgement: 30 GB
// at 20 MB/s take 25 minutes.
const pullTakes = 30 * time.Minute

// Pulls is the event in which the kubelet says that it pulls an image, which comes after the mounts;
// the pod's status shows them only once the image is there. It is nil where the machine may have
// restarted since, and where the pull no longer explains the wait.
func (p *View) Pulls(pod *corev1.Pod, events []*corev1.Event) *corev1.Event {
	e, node := LastOf(events, trim.PullingReason), p.Snapshot.Node(NodeOf(pod))
	if e == nil || node == nil || p.Age(snapshot.EventTime(e)) > pullTakes {
		return nil
	}
	if at, ready := snapshot.EventTime(e), ReadyCondition(node); ready == nil || at.Before(&ready.LastTransitionTime) {
		return nil
	}
	return e
}

// LastOf is the last of the events with one of the reasons; nil where there is none.
func LastOf(events []*corev1.Event, reasons ...string) *corev1.Event {
	for _, e := range slices.Backward(events) {
		if slices.Contains(reasons, e.Reason) {
			return e
		}
	}
	return nil
}
