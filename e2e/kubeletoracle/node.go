//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubeletoracle/wire"
)

const (
	// statusPeriod is 10 s in a kubelet; tests need not wait that long.
	statusPeriod = 200 * time.Millisecond
	// heartbeat is how often the Ready condition and the lease are renewed.
	heartbeat      = 10 * time.Second
	leaseNamespace = "kube-node-lease"
)

// registerNode makes the node, as a kubelet does that starts, unless it is there.
func registerNode(ctx context.Context, client kubernetes.Interface, m wire.Machine) error {
	labels := map[string]string{corev1.LabelHostname: m.Node}
	for k, v := range m.Labels {
		labels[k] = v
	}
	_, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: m.Node, Labels: labels, Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
	}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("register the node: %w", err)
	}
	duration := int32(40)
	now := metav1.NowMicro()
	_, err = client.CoordinationV1().Leases(leaseNamespace).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: m.Node, Namespace: leaseNamespace},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &m.Node, LeaseDurationSeconds: &duration, RenewTime: &now},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make the node's lease: %w", err)
	}
	return beat(ctx, client, m, "")
}

// beat renews the node's Ready condition and its lease. The condition is False where
// something keeps the node from being Ready (ReadyCondition, pkg/kubelet/nodestatus). The lease
// is renewed also where the status is refused.
func beat(ctx context.Context, client kubernetes.Interface, m wire.Machine, whyNot string) error {
	now := metav1.Now()
	ready := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", Message: "kubelet is posting ready status",
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
	if whyNot != "" {
		ready.Status, ready.Reason, ready.Message = corev1.ConditionFalse, "KubeletNotReady", whyNot
	}
	written := map[string]any{"status": corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{KubeletVersion: m.Release, OperatingSystem: "linux", Architecture: "amd64"},
		Conditions: []corev1.NodeCondition{ready},
	}}
	patch, err := json.Marshal(written)
	if err != nil {
		return err
	}
	_, status := client.CoreV1().Nodes().Patch(ctx, m.Node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	patch = fmt.Appendf(nil, `{"spec":{"renewTime":%q}}`, metav1.NowMicro().UTC().Format(metav1.RFC3339Micro))
	_, lease := client.CoordinationV1().Leases(leaseNamespace).Patch(ctx, m.Node, types.MergePatchType, patch, metav1.PatchOptions{})
	return errors.Join(status, lease)
}

// nodeStatus is the loop that writes volumesInUse (syncNodeStatus and
// nodestatus.VolumesInUse).
type nodeStatus struct {
	machine wire.Machine
	client  kubernetes.Interface
	nodes   corelisters.NodeLister
	volumes volumemanager.VolumeManager
	host    *host

	mu       sync.Mutex
	reported []corev1.UniqueVolumeName
}

func (s *nodeStatus) run(ctx context.Context) {
	next, said := time.Now().Add(heartbeat), ""
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if err := s.sync(ctx); err != nil {
			klog.ErrorS(err, "Unable to update the node's status")
		}
		if whyNot := s.host.whyNotReady(); time.Now().After(next) || whyNot != said {
			next, said = time.Now().Add(heartbeat), whyNot
			if err := beat(ctx, s.client, s.machine, whyNot); err != nil {
				klog.ErrorS(err, "Unable to renew the node")
			}
		}
	}, statusPeriod)
}

// sync writes the list where it differs, and lets the volume manager know what the
// API server has: not before the volume manager knows what it found on disk.
func (s *nodeStatus) sync(ctx context.Context) error {
	if !s.volumes.ReconcilerStatesHasBeenSynced() {
		return nil
	}
	node, err := s.nodes.Get(s.machine.Node)
	if err != nil {
		return err
	}
	inUse := s.volumes.GetVolumesInUse()
	if !slices.Equal(node.Status.VolumesInUse, inUse) {
		patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesInUse": inUse}})
		if err != nil {
			return err
		}
		if _, err := s.client.CoreV1().Nodes().Patch(ctx, s.machine.Node, types.MergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
			return err
		}
	}
	s.volumes.MarkVolumesAsReportedInUse(inUse)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reported = inUse
	return nil
}

// accepted is the list that the API server last accepted.
func (s *nodeStatus) accepted() []corev1.UniqueVolumeName {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reported
}
