package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
)

const (
	managedAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"
	nodeIDAnnotation  = "csi.volume.kubernetes.io/nodeid"
	kubeletVersion    = controlplane.KubernetesVersion
	fieldManager      = "kubelet"
)

// register makes or takes over the Node, reports it ready, and registers the
// CSI driver.
func (k *Kubelet) register(ctx context.Context) error {
	nodes := k.client.CoreV1().Nodes()
	// An object that is created with only a name never gets managed fields, which show who
	// wrote volumesAttached.
	born := metav1.ObjectMeta{Name: k.options.Node, Labels: map[string]string{corev1.LabelHostname: k.options.Node}}
	_, err := nodes.Create(ctx, &corev1.Node{ObjectMeta: born}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register node: %w", err)
	}
	node, err := k.updateNode(ctx, func(node *corev1.Node) {
		setKey(&node.Labels, corev1.LabelHostname, node.Name)
		setKey(&node.Labels, corev1.LabelOSStable, "linux")
		setKey(&node.Labels, corev1.LabelArchStable, "amd64")
		if !k.options.Unmanaged {
			setKey(&node.Annotations, managedAnnotation, "true")
		}
		setKey(&node.Annotations, nodeIDAnnotation, fmt.Sprintf("{%q:%q}", k.options.Driver, k.options.Machine))
		// The node lifecycle controller would remove them from a ready node.
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isHealthTaint)
	})
	if err != nil {
		return fmt.Errorf("register node: %w", err)
	}
	if err := k.patchStatus(ctx, k.initialStatus(node)); err != nil {
		return fmt.Errorf("register node: %w", err)
	}
	if err := k.registerDriver(ctx, node); err != nil {
		return fmt.Errorf("register CSI driver: %w", err)
	}
	return k.touchLease(ctx)
}

// initialStatus is a kubelet's first report about itself, without the volumes.
func (k *Kubelet) initialStatus(node *corev1.Node) map[string]any {
	room := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("4"),
		corev1.ResourceMemory: resource.MustParse("16Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	conditions := []corev1.NodeCondition{k.options.readyCondition(node)}
	for _, pressure := range []corev1.NodeConditionType{corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		conditions = append(conditions, nodeCondition(node, pressure, corev1.ConditionFalse, "KubeletHasSufficientResources", ""))
	}
	return map[string]any{
		"addresses":   []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: node.Name}},
		"capacity":    room,
		"allocatable": room,
		"conditions":  conditions,
		"nodeInfo": corev1.NodeSystemInfo{
			KubeletVersion: kubeletVersion, ContainerRuntimeVersion: "containerd://2.2.0",
			OperatingSystem: "linux", Architecture: "amd64", OSImage: "stand-in", KernelVersion: "6.12.0",
			MachineID: k.options.Machine, SystemUUID: k.options.Machine, BootID: k.options.Machine,
		},
	}
}

// registerDriver lists the driver in the CSINode object of the node.
func (k *Kubelet) registerDriver(ctx context.Context, node *corev1.Node) error {
	csiNodes := k.client.StorageV1().CSINodes()
	driver := storagev1.CSINodeDriver{Name: k.options.Driver, NodeID: k.options.Machine}
	drivers := []storagev1.CSINodeDriver{driver}
	if k.options.Unregistered {
		drivers = nil
	}
	_, err := csiNodes.Create(ctx, &storagev1.CSINode{
		ObjectMeta: metav1.ObjectMeta{
			Name:            node.Name,
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: storagev1.CSINodeSpec{Drivers: drivers},
	}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) || k.options.Unregistered {
		return ignoreExists(err)
	}
	return k.StartPlugin(ctx)
}

// StartPlugin starts the driver's node plugin where it did not run, and registers it with the
// kubelet.
func (k *Kubelet) StartPlugin(ctx context.Context) error {
	csiNodes := k.client.StorageV1().CSINodes()
	driver := storagev1.CSINodeDriver{Name: k.options.Driver, NodeID: k.options.Machine}
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		csiNode, err := csiNodes.Get(ctx, k.options.Node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(csiNode.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == driver.Name }) {
			return nil
		}
		csiNode.Spec.Drivers = append(csiNode.Spec.Drivers, driver)
		_, err = csiNodes.Update(ctx, csiNode, metav1.UpdateOptions{})
		return err
	})
}

// markUnreachable does to the Node what the node lifecycle controller does when
// a kubelet falls silent.
func (k *Kubelet) markUnreachable(ctx context.Context) error {
	now := metav1.Now()
	node, err := k.updateNode(ctx, func(node *corev1.Node) {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, isHealthTaint)
		for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: effect, TimeAdded: &now})
		}
	})
	if err != nil {
		return fmt.Errorf("mark node unreachable: %w", err)
	}
	unknown := nodeCondition(node, corev1.NodeReady, corev1.ConditionUnknown, "NodeStatusUnknown", "Kubelet stopped posting node status.")
	if err := k.patchStatus(ctx, map[string]any{"conditions": []corev1.NodeCondition{unknown}}); err != nil {
		return fmt.Errorf("mark node unreachable: %w", err)
	}
	return nil
}

// updateNode changes the Node apart from its status.
func (k *Kubelet) updateNode(ctx context.Context, change func(*corev1.Node)) (node *corev1.Node, err error) {
	nodes := k.client.CoreV1().Nodes()
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if node, err = nodes.Get(ctx, k.options.Node, metav1.GetOptions{}); err != nil {
			return err
		}
		change(node)
		node, err = nodes.Update(ctx, node, metav1.UpdateOptions{})
		return err
	})
	return node, err
}

func (k *Kubelet) patchStatus(ctx context.Context, status map[string]any) error {
	patch, err := json.Marshal(map[string]any{"status": status})
	if err != nil {
		return err
	}
	_, err = k.client.CoreV1().Nodes().Patch(ctx, k.options.Node, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	return err
}

// renewLease renews the lease of the kubelet until ctx ends.
func (k *Kubelet) renewLease(ctx context.Context) {
	ticker := time.NewTicker(leasePeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if err := k.touchLease(ctx); err != nil && !errors.Is(err, context.Canceled) {
				_, _ = fmt.Fprintf(k.options.Log, "kubelet %s: renew lease: %v\n", k.options.Node, err)
			}
		}
	}
}

func (k *Kubelet) touchLease(ctx context.Context) error {
	leases := k.client.CoordinationV1().Leases("kube-node-lease")
	now, validity := metav1.NowMicro(), int32(40)
	lease, err := leases.Get(ctx, k.options.Node, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: k.options.Node},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: &k.options.Node, LeaseDurationSeconds: &validity, RenewTime: &now},
		}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	lease.Spec.RenewTime = &now
	_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
	return err
}

// syncNodeStatus writes volumesInUse if it is not right, and the heartbeat with it. It never
// touches volumesAttached, which belongs to the controller.
func (w *worker) syncNodeStatus(ctx context.Context) error {
	node, err := w.nodes.Get(w.options.Node)
	if err != nil {
		return err
	}
	want := w.inUse()
	shown := map[corev1.UniqueVolumeName]bool{}
	for _, name := range node.Status.VolumesInUse {
		shown[name] = true
	}
	// The watch may lag behind the last patch, so the last patch must agree as well.
	if maps.Equal(want, shown) && maps.Equal(want, w.reported) && time.Since(w.reportedAt) < reportPeriod {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{
		"volumesInUse": slices.Sorted(maps.Keys(want)), // null, which means none, if empty
		"conditions":   []corev1.NodeCondition{w.options.readyCondition(node)},
	}})
	if err != nil {
		return err
	}
	_, err = w.client.CoreV1().Nodes().Patch(ctx, node.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager}, "status")
	if err != nil {
		return fmt.Errorf("write node status: %w", err)
	}
	w.reported, w.reportedAt = want, time.Now()
	return nil
}

func (o Options) readyCondition(node *corev1.Node) corev1.NodeCondition {
	if o.NotReady != "" {
		return nodeCondition(node, corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady", "["+o.NotReady+"]")
	}
	return nodeCondition(node, corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status")
}

// nodeCondition is a condition as of now that keeps the time of the last transition if the
// node has the same status already.
func nodeCondition(node *corev1.Node, kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
	now := metav1.Now()
	condition := corev1.NodeCondition{
		Type: kind, Status: status, Reason: reason, Message: message,
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
	for _, old := range node.Status.Conditions {
		if old.Type == kind && old.Status == status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
	}
	return condition
}

func isHealthTaint(t corev1.Taint) bool {
	return t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable
}

func setKey(m *map[string]string, key, value string) {
	if *m == nil {
		*m = map[string]string{}
	}
	(*m)[key] = value
}

func ignoreExists(err error) error {
	if apierrors.IsAlreadyExists(err) {
		return nil
	}
	return err
}
