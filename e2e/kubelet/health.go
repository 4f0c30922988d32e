package kubelet

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
)

// MarkUnreachable does to a node what the node lifecycle controller does when the node's
// kubelet falls silent, whatever kubelet that is.
func MarkUnreachable(ctx context.Context, client kubernetes.Interface, node string) error {
	return (&Kubelet{client: client, options: Options{Node: node}}).markUnreachable(ctx)
}

// ClearTaints removes the taints that MarkUnreachable sets, as the controller does once the
// node is Ready.
func ClearTaints(ctx context.Context, client kubernetes.Interface, node string) error {
	_, err := (&Kubelet{client: client, options: Options{Node: node}}).updateNode(ctx, func(node *corev1.Node) {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isHealthTaint)
	})
	return err
}
