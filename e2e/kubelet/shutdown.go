package kubelet

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
)

// ShutDown ends the stand-in as a kubelet ends that shuts its node down in order and runs out
// of time: its pods are ended and marked so, and nothing is unmounted or announced any more.
func (k *Kubelet) ShutDown(ctx context.Context) error {
	k.Stop()
	list, err := k.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + k.options.Node})
	if err != nil {
		return fmt.Errorf("shut node %s down: %w", k.options.Node, err)
	}
	var errs []error
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Status.Phase != corev1.PodRunning {
			continue
		}
		endedStatus(pod)
		pod.Status.Phase, pod.Status.Reason = corev1.PodFailed, "Terminated"
		pod.Status.Message = "Pod was terminated in response to imminent node shutdown."
		_, err := k.client.CoreV1().Pods(pod.Namespace).UpdateStatus(ctx, pod, metav1.UpdateOptions{})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Unregister removes the driver from the CSINode object of the node, as a kubelet does when
// the driver's node plugin ends.
func (k *Kubelet) Unregister(ctx context.Context) error {
	csiNodes := k.client.StorageV1().CSINodes()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		csiNode, err := csiNodes.Get(ctx, k.options.Node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		csiNode.Spec.Drivers = slices.DeleteFunc(csiNode.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == k.options.Driver })
		_, err = csiNodes.Update(ctx, csiNode, metav1.UpdateOptions{})
		return err
	})
}
