package kubelet

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// syncPods brings each pod of the node one step further and forgets those whose
// objects are gone.
func (w *worker) syncPods(ctx context.Context) error {
	pods, err := w.pods.List(labels.Everything())
	if err != nil {
		return err
	}
	present := map[types.UID]bool{}
	var errs []error
	for _, pod := range pods {
		present[pod.UID] = true
		if err := w.syncPod(ctx, pod); err != nil {
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err))
		}
	}
	w.forget(present)
	return errors.Join(errs...)
}

func (w *worker) syncPod(ctx context.Context, pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return w.terminate(ctx, pod)
	case pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed:
		w.unmount(pod)
		return nil
	}
	err := w.desire(pod)
	if err == nil {
		err = w.mount(ctx, pod)
	} else {
		_ = w.mount(ctx, pod) // the volumes that could be resolved need not wait
	}
	if err != nil {
		if pod.Status.Phase == corev1.PodRunning {
			return nil // its containers run while a fresh kubelet mounts again
		}
		return errors.Join(err, w.writeStatus(ctx, pod, waitingStatus))
	}
	return w.writeStatus(ctx, pod, runningStatus)
}

// terminate ends a pod that is being deleted, in a kubelet's order: containers,
// mounts, node status, and then the object.
func (w *worker) terminate(ctx context.Context, pod *corev1.Pod) error {
	if pod.Status.Phase == corev1.PodRunning {
		return w.writeStatus(ctx, pod, endedStatus)
	}
	if !w.unmount(pod) {
		return nil // the object goes once all is unmounted
	}
	if w.reportedAt.IsZero() || !maps.Equal(w.inUse(), w.reported) {
		return nil // until the node status shows that
	}
	atOnce := int64(0)
	err := w.client.CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &atOnce,
		Preconditions:      metav1.NewUIDPreconditions(string(pod.UID)),
	})
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // gone, or replaced by another pod of this name
	}
	return err
}

// writeStatus writes the pod's status as changed by change, if that differs.
func (w *worker) writeStatus(ctx context.Context, pod *corev1.Pod, change func(*corev1.Pod)) error {
	changed := pod.DeepCopy()
	changed.Status.ObservedGeneration = pod.Generation
	change(changed)
	if equality.Semantic.DeepEqual(pod.Status, changed.Status) {
		return nil
	}
	_, err := w.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, changed, metav1.UpdateOptions{})
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil // the watch will bring the new state
	}
	return err
}

// waitingStatus is the status of a pod that still lacks volumes.
func waitingStatus(pod *corev1.Pod) {
	pod.Status.Phase = corev1.PodPending
	if pod.Status.StartTime == nil {
		now := metav1.Now()
		pod.Status.StartTime = &now
	}
	waiting := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
	}
	reason := "ContainerCreating"
	if len(pod.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	pod.Status.InitContainerStatuses = containerStatuses(pod.Spec.InitContainers, waiting(reason), false)
	pod.Status.ContainerStatuses = containerStatuses(pod.Spec.Containers, waiting(reason), false)
	setCondition(pod, corev1.PodScheduled, corev1.ConditionTrue, "")
	setCondition(pod, corev1.PodReadyToStartContainers, corev1.ConditionFalse, "")
	initialized, why := corev1.ConditionTrue, ""
	if len(pod.Spec.InitContainers) > 0 {
		initialized, why = corev1.ConditionFalse, "ContainersNotInitialized"
	}
	setCondition(pod, corev1.PodInitialized, initialized, why)
	setCondition(pod, corev1.ContainersReady, corev1.ConditionFalse, "ContainersNotReady")
	setCondition(pod, corev1.PodReady, corev1.ConditionFalse, "ContainersNotReady")
}

// runningStatus is the status of a pod whose containers run and are ready.
func runningStatus(pod *corev1.Pod) {
	if pod.Status.Phase == corev1.PodRunning {
		return
	}
	now := metav1.Now()
	pod.Status.Phase = corev1.PodRunning
	if pod.Status.StartTime == nil {
		pod.Status.StartTime = &now
	}
	pod.Status.PodIP = podIP(pod.UID)
	pod.Status.PodIPs = []corev1.PodIP{{IP: pod.Status.PodIP}}
	pod.Status.InitContainerStatuses = containerStatuses(pod.Spec.InitContainers, completed(now, now), true)
	pod.Status.ContainerStatuses = containerStatuses(pod.Spec.Containers,
		corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}}, true)
	for _, kind := range []corev1.PodConditionType{
		corev1.PodScheduled, corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady,
	} {
		setCondition(pod, kind, corev1.ConditionTrue, "")
	}
}

// endedStatus is the status of a pod whose containers were stopped successfully.
func endedStatus(pod *corev1.Pod) {
	now := metav1.Now()
	started := now
	if pod.Status.StartTime != nil {
		started = *pod.Status.StartTime
	}
	pod.Status.Phase = corev1.PodSucceeded
	pod.Status.ContainerStatuses = containerStatuses(pod.Spec.Containers, completed(started, now), false)
	setCondition(pod, corev1.PodReadyToStartContainers, corev1.ConditionFalse, "")
	setCondition(pod, corev1.ContainersReady, corev1.ConditionFalse, "PodCompleted")
	setCondition(pod, corev1.PodReady, corev1.ConditionFalse, "PodCompleted")
}

func completed(started, finished metav1.Time) corev1.ContainerState {
	return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		Reason: "Completed", StartedAt: started, FinishedAt: finished,
	}}
}

func containerStatuses(containers []corev1.Container, state corev1.ContainerState, ready bool) []corev1.ContainerStatus {
	var statuses []corev1.ContainerStatus
	for _, c := range containers {
		started := state.Running != nil
		status := corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: state, Ready: ready, Started: &started}
		if state.Waiting == nil {
			status.ImageID, status.ContainerID = c.Image, "containerd://"+c.Name
		}
		statuses = append(statuses, status)
	}
	return statuses
}

// setCondition sets a condition and keeps the time of its last transition if its status stays
// the same.
func setCondition(pod *corev1.Pod, kind corev1.PodConditionType, status corev1.ConditionStatus, reason string) {
	condition := corev1.PodCondition{
		Type: kind, Status: status, Reason: reason,
		ObservedGeneration: pod.Generation, LastTransitionTime: metav1.Now(),
	}
	for i, old := range pod.Status.Conditions {
		if old.Type == kind {
			if old.Status == status {
				condition.LastTransitionTime = old.LastTransitionTime
			}
			pod.Status.Conditions[i] = condition
			return
		}
	}
	pod.Status.Conditions = append(pod.Status.Conditions, condition)
}

// podIP is an address; two pods rarely get the same one.
func podIP(uid types.UID) string {
	hash := fnv.New32()
	_, _ = hash.Write([]byte(uid)) // never fails
	sum := hash.Sum32()
	return fmt.Sprintf("10.244.%d.%d", sum>>8&0xff, 1+sum%254)
}
