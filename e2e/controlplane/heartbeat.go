package controlplane

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	// host is the name under which the kubelet of the control plane's machine renews its
	// lease. There is no Node of the name.
	host = "control-plane"
	// heartbeat is the pause between two renewals.
	heartbeat = 5 * time.Second
)

// beat renews until ctx ends the lease that the kubelet of a control plane's machine has.
// The controller leads without a lease here, and a world without kubelets would show
// nothing by which the API server's clock can be judged.
func (c *Cluster) beat(ctx context.Context) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		_ = c.renew(ctx) // the API server may be down, as a test wants it
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (c *Cluster) renew(ctx context.Context) error {
	leases := c.client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Get(ctx, host, metav1.GetOptions{})
	if err == nil {
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	}
	if !apierrors.IsNotFound(err) {
		return err
	}
	_, err = leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: host},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(host), RenewTime: ptr.To(metav1.NowMicro())},
	}, metav1.CreateOptions{})
	return err
}
