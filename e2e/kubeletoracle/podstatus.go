//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// write changes the pod's status, unless the pod of that UID is gone. The lists
// replace those that were there.
func (w *worker) write(ctx context.Context, status corev1.PodStatus) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": w.object}, "status": status})
	if err != nil {
		return err
	}
	_, err = w.pods.kubelet.client.CoreV1().Pods(w.pod.Namespace).Patch(ctx, w.pod.Name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("write the status of pod %s: %w", w, err)
	}
	return nil
}

func condition(kind corev1.PodConditionType, is bool) corev1.PodCondition {
	c := corev1.PodCondition{Type: kind, Status: corev1.ConditionFalse, LastTransitionTime: metav1.Now()}
	if is {
		c.Status = corev1.ConditionTrue
	}
	return c
}

// conditions are the conditions of the pod's status. PodScheduled is the scheduler's: it stays as
// it was, where there was one.
func (w *worker) conditions(sandbox, ready bool) []corev1.PodCondition {
	scheduled := condition(corev1.PodScheduled, true)
	for _, c := range w.pod.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			scheduled = c
		}
	}
	return []corev1.PodCondition{
		scheduled, condition(corev1.PodReadyToStartContainers, sandbox),
		condition(corev1.PodInitialized, true), condition(corev1.ContainersReady, ready), condition(corev1.PodReady, ready),
	}
}

// writeStarting is the status before the wait for the volumes, written once; a container
// that runs from before a restart of the kubelet goes on running.
func (w *worker) writeStarting(ctx context.Context) error {
	pod, ok := w.pods.GetPodByUID(w.pod.UID)
	if !ok {
		return nil
	}
	for _, c := range pod.Status.ContainerStatuses {
		if c.State.Running != nil || c.State.Waiting != nil {
			return nil
		}
	}
	now := metav1.Now()
	status := corev1.PodStatus{Phase: corev1.PodPending, StartTime: &now, Conditions: w.conditions(false, false)}
	reason := "ContainerCreating"
	if len(w.pod.Spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	status.InitContainerStatuses, status.ContainerStatuses = waitingFor(reason, w.pod.Spec.InitContainers), waitingFor(reason, w.pod.Spec.Containers)
	return w.write(ctx, status)
}

// waitingFor are the containers before they start.
func waitingFor(reason string, containers []corev1.Container) (list []corev1.ContainerStatus) {
	for _, c := range containers {
		list = append(list, corev1.ContainerStatus{Name: c.Name, Image: c.Image, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}})
	}
	return list
}

func (w *worker) writeRunning(ctx context.Context) error {
	now, started := metav1.Now(), true
	status := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: w.conditions(true, true)}
	for _, c := range w.pod.Spec.InitContainers {
		ran := corev1.ContainerStatus{Name: c.Name, Image: c.Image, Ready: true, Started: &started}
		if c.RestartPolicy != nil {
			ran.State.Running = &corev1.ContainerStateRunning{StartedAt: now}
		} else {
			no := false
			ran.Started, ran.State.Terminated = &no, &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: now, FinishedAt: now}
		}
		status.InitContainerStatuses = append(status.InitContainerStatuses, ran)
	}
	for _, c := range w.pod.Spec.Containers {
		status.ContainerStatuses = append(status.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, Ready: true, Started: &started, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		})
	}
	return w.write(ctx, status)
}

func (w *worker) writeRejected(ctx context.Context, reason, message string) error {
	return w.write(ctx, corev1.PodStatus{Phase: corev1.PodFailed, Reason: reason, Message: message})
}

// writeStopped is the status once the containers have ended.
func (w *worker) writeStopped(ctx context.Context) error {
	pod, ok := w.pods.GetPodByUID(w.pod.UID)
	if !ok {
		return nil
	}
	status := corev1.PodStatus{Phase: pod.Status.Phase, Conditions: w.conditions(false, false)}
	if status.Phase != corev1.PodSucceeded {
		status.Phase = corev1.PodFailed
	}
	status.InitContainerStatuses, status.ContainerStatuses = stoppedNow(pod.Status.InitContainerStatuses), stoppedNow(pod.Status.ContainerStatuses)
	return w.write(ctx, status)
}

// stoppedNow are the containers once those that run were killed.
func stoppedNow(list []corev1.ContainerStatus) (stopped []corev1.ContainerStatus) {
	now := metav1.Now()
	for _, c := range list {
		ended := corev1.ContainerStatus{Name: c.Name, Image: c.Image}
		if c.State.Running != nil {
			ended.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", StartedAt: c.State.Running.StartedAt, FinishedAt: now}
		} else {
			ended.State = c.State
		}
		stopped = append(stopped, ended)
	}
	return stopped
}

// remove lets the pod's object go, as the status manager does once all is unmounted.
func (w *worker) remove(ctx context.Context) error {
	now := int64(0)
	err := w.pods.kubelet.client.CoreV1().Pods(w.pod.Namespace).Delete(ctx, w.pod.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &now, Preconditions: metav1.NewUIDPreconditions(string(w.object)),
	})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return err
	}
	return nil
}
