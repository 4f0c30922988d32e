package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"      //nolint:staticcheck // forwards to k8s.io/streaming, which is no requirement of this module
	"k8s.io/apimachinery/pkg/util/httpstream/spdy" //nolint:staticcheck // the same
)

// ManagerPod shows kube-controller-manager in the API as kubeadm does: the mirror pod
// of a static pod on a control-plane node, whose kubelet forwards its port, and the
// lease that names its host.
type ManagerPod struct {
	cluster *Cluster
	host    string
	kubelet *httptest.Server
}

// ShowManager shows it on a node of that name. Its flags stand in the pod's command.
func (c *Cluster) ShowManager(ctx context.Context, host string, flags ...string) (*ManagerPod, error) {
	m := &ManagerPod{cluster: c, host: host}
	m.kubelet = httptest.NewTLSServer(http.HandlerFunc(m.forward))
	if err := m.show(ctx, flags); err != nil {
		return nil, errors.Join(fmt.Errorf("show kube-controller-manager: %w", err), m.Close(context.WithoutCancel(ctx)))
	}
	return m, nil
}

func (m *ManagerPod) show(ctx context.Context, flags []string) error {
	core := m.cluster.client.CoreV1()
	ip, text, err := net.SplitHostPort(m.kubelet.Listener.Addr().String())
	if err != nil {
		return err
	}
	port, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return err
	}
	node, err := core.Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.host}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(port)
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
	if _, err := core.Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
		return err
	}
	pod, err := core.Pods(metav1.NamespaceSystem).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: m.name()},
		Spec: corev1.PodSpec{NodeName: m.host, HostNetwork: true, Containers: []corev1.Container{{
			Name: controllerManager, Image: "registry.k8s.io/" + controllerManager + ":" + KubernetesVersion, Command: append([]string{controllerManager}, flags...),
		}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	pod.Status.Phase = corev1.PodRunning
	if _, err := core.Pods(metav1.NamespaceSystem).UpdateStatus(ctx, pod, metav1.UpdateOptions{}); err != nil {
		return err
	}
	// It elects nobody. For all that a lease can show, it has led for an hour.
	return m.HoldLease(ctx, m.host)
}

// HoldLease makes a replica on that host the one that leads.
func (m *ManagerPod) HoldLease(ctx context.Context, host string) error {
	leases := m.cluster.client.CoordinationV1().Leases(metav1.NamespaceSystem)
	if err := leases.Delete(ctx, controllerManager, metav1.DeleteOptions{}); ignoreNotFound(err) != nil {
		return err
	}
	holder, acquired, renewed, lasts := host+"_4d0d7c2e-35a6-4d3b-9f5c-6d3c4b9e1a11", metav1.NewMicroTime(time.Now().Add(-time.Hour)), metav1.NowMicro(), int32(15)
	_, err := leases.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: controllerManager},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, AcquireTime: &acquired, RenewTime: &renewed, LeaseDurationSeconds: &lasts},
	}, metav1.CreateOptions{})
	return err
}

// StopKubelet has nobody forward the port any more.
func (m *ManagerPod) StopKubelet() { m.kubelet.Close() }

// Close takes all of it away.
func (m *ManagerPod) Close(ctx context.Context) error {
	m.kubelet.Close()
	var now int64
	client := m.cluster.client
	return errors.Join(
		ignoreNotFound(client.CoordinationV1().Leases(metav1.NamespaceSystem).Delete(ctx, controllerManager, metav1.DeleteOptions{})),
		ignoreNotFound(client.CoreV1().Pods(metav1.NamespaceSystem).Delete(ctx, m.name(), metav1.DeleteOptions{GracePeriodSeconds: &now})),
		ignoreNotFound(client.CoreV1().Nodes().Delete(ctx, m.host, metav1.DeleteOptions{})),
	)
}

func (m *ManagerPod) name() string { return controllerManager + "-" + m.host }

// forward is a kubelet's port-forward: each data stream is a connection to the port,
// which on this machine is another one.
func (m *ManagerPod) forward(w http.ResponseWriter, request *http.Request) {
	if !strings.HasPrefix(request.URL.Path, "/portForward/"+metav1.NamespaceSystem+"/"+m.name()) {
		http.NotFound(w, request)
		return
	}
	if _, err := httpstream.Handshake(request, w, []string{"portforward.k8s.io"}); err != nil {
		return
	}
	connection := spdy.NewResponseUpgrader().UpgradeResponse(w, request, func(stream httpstream.Stream, _ <-chan struct{}) error {
		if stream.Headers().Get(corev1.StreamType) == corev1.StreamTypeData {
			go m.serve(stream)
		}
		return nil
	})
	if connection != nil {
		<-connection.CloseChan()
	}
}

func (m *ManagerPod) serve(stream httpstream.Stream) {
	defer func() { _ = stream.Reset() }()
	target, err := net.Dial("tcp", address(m.cluster.ports.controllerManager))
	if err != nil {
		return
	}
	defer func() { _ = target.Close() }()
	go func() { _, _ = io.Copy(target, stream) }()
	_, _ = io.Copy(stream, target)
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
