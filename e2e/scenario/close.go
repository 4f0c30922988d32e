package scenario

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
)

// Close removes the world: it stops the kubelet stand-ins, heals the driver,
// and deletes the pods, claims and volumes of the namespace and everything that
// belongs to the world's nodes. The next test finds controller, attacher and
// driver at rest. The namespace stays, as nothing here finishes its deletion.
func (w *World) Close(ctx context.Context) error {
	w.Stop()
	w.cluster.Driver.FailPublish(nil)
	w.cluster.Driver.FailUnpublish(nil)
	w.cluster.Driver.Delay(0)
	err := w.deletePods(ctx)
	for _, k := range w.kubelets {
		err = errors.Join(err, w.removeNode(ctx, k.Node()))
	}
	if err = errors.Join(err, w.deleteVolumes(ctx)); err != nil {
		return fmt.Errorf("remove world in namespace %s: %w", w.Namespace, err)
	}
	return nil
}

// Stop stops the kubelet stand-ins and leaves everything as it is, for a
// control plane that is about to end itself.
func (w *World) Stop() {
	for _, k := range w.kubelets {
		k.Stop()
	}
}

func (w *World) deletePods(ctx context.Context) error {
	pods := w.cluster.Client().CoreV1().Pods(w.Namespace)
	return pods.DeleteCollection(ctx, *metav1.NewDeleteOptions(0), metav1.ListOptions{})
}

// removeNode detaches everything from a node and deletes its objects.
func (w *World) removeNode(ctx context.Context, node string) error {
	client := w.cluster.Client()
	// What a stopped kubelet announced would hold the attachments back.
	none := []byte(`{"status":{"volumesInUse":null}}`)
	if _, err := client.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, none, metav1.PatchOptions{}, "status"); err != nil {
		return ignoreNotFound(err)
	}
	if err := fixture.Await(ctx, w.nothingAttached(node)); err != nil {
		return err
	}
	return errors.Join(
		ignoreNotFound(client.CoreV1().Nodes().Delete(ctx, node, metav1.DeleteOptions{})),
		ignoreNotFound(client.StorageV1().CSINodes().Delete(ctx, node, metav1.DeleteOptions{})),
		ignoreNotFound(client.CoordinationV1().Leases("kube-node-lease").Delete(ctx, node, metav1.DeleteOptions{})),
	)
}

// nothingAttached says that a node has no VolumeAttachment. It deletes those it
// finds, because the controller may be in a back-off or not be running.
func (w *World) nothingAttached(node string) fixture.Condition {
	attachments := w.cluster.Client().StorageV1().VolumeAttachments()
	return fixture.Condition{
		What: "node " + node + " has no VolumeAttachments",
		Check: func(ctx context.Context) (bool, []runtime.Object, error) {
			list, err := attachments.List(ctx, metav1.ListOptions{})
			if err != nil {
				return false, nil, err
			}
			var left []runtime.Object
			for i := range list.Items {
				if list.Items[i].Spec.NodeName != node {
					continue
				}
				left = append(left, &list.Items[i])
				if err := attachments.Delete(ctx, list.Items[i].Name, metav1.DeleteOptions{}); err != nil {
					return false, left, ignoreNotFound(err)
				}
			}
			return len(left) == 0, left, nil
		},
	}
}

func (w *World) deleteVolumes(ctx context.Context) error {
	client := w.cluster.Client().CoreV1()
	claims, err := client.PersistentVolumeClaims(w.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for _, claim := range claims.Items {
		errs = append(errs, ignoreNotFound(client.PersistentVolumeClaims(w.Namespace).Delete(ctx, claim.Name, metav1.DeleteOptions{})))
		if claim.Spec.VolumeName != "" {
			errs = append(errs, ignoreNotFound(client.PersistentVolumes().Delete(ctx, claim.Spec.VolumeName, metav1.DeleteOptions{})))
		}
	}
	return errors.Join(errs...)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
