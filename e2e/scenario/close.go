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

// Close removes the world: it stops the kubelet stand-ins, heals the driver for
// the world's volumes, and deletes the pods, claims and volumes of the namespace and everything that
// belongs to the world's nodes. The next test finds controller, attacher and
// driver at rest. The namespace stays, as nothing here finishes its deletion.
func (w *World) Close(ctx context.Context) error {
	w.Stop()
	err := errors.Join(w.heal(ctx), w.deletePods(ctx))
	for _, k := range w.kubelets {
		err = errors.Join(err, w.removeNode(ctx, k.Node()))
	}
	if err = errors.Join(err, w.deleteVolumes(ctx)); err != nil {
		return fmt.Errorf("remove world in namespace %s: %w", w.Namespace, err)
	}
	return nil
}

// Heal does what a storage or cluster admin would do about what is broken: from now on
// the driver serves the world's volumes, and its node plugin runs on every node.
func (w *World) Heal(ctx context.Context) error {
	err := w.heal(ctx)
	for _, k := range w.kubelets {
		err = errors.Join(err, k.StartPlugin(ctx))
	}
	return err
}

// heal ends what the driver was made to do with the namespace's volumes. Those
// of other worlds go on failing: their tests may be under way.
func (w *World) heal(ctx context.Context) error {
	volumes, err := w.cluster.Client().CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, pv := range volumes.Items {
		if pv.Spec.CSI == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.Namespace != w.Namespace {
			continue
		}
		w.cluster.Driver.FailPublish(nil, pv.Spec.CSI.VolumeHandle)
		w.cluster.Driver.FailUnpublish(nil, pv.Spec.CSI.VolumeHandle)
		w.cluster.Driver.Delay(0, pv.Spec.CSI.VolumeHandle)
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

// nothingAttached is true once a node has no VolumeAttachment. It deletes those it
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
