package kubelet_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
)

func TestShutDownLeavesVolumes(t *testing.T) {
	w := healthy(t)
	client := cluster.Client()
	if err := w.Kubelet.ShutDown(t.Context()); err != nil {
		t.Fatal(err)
	}
	pod, err := client.CoreV1().Pods(w.Namespace).Get(t.Context(), w.Subject.Pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Status.Phase != corev1.PodFailed || pod.Status.Reason != "Terminated" {
		t.Errorf("the pod is %s, reason %q", pod.Status.Phase, pod.Status.Reason)
	}
	// The pod has ended, but nobody has reported that the volume is unmounted.
	if err := fixture.Stays(t.Context(), 2*time.Second, fixture.Attached(client, w.Node, w.Subject.Volume)); err != nil {
		t.Error(err)
	}
}

func TestNoDeviceOnAnotherMachine(t *testing.T) {
	w := healthy(t)
	client := cluster.Client()
	user, err := cluster.ClientFor(controlplane.UserKubelet)
	if err != nil {
		t.Fatal(err)
	}
	node := w.Namespace + "-replaced"
	start := func(machine string) *kubelet.Kubelet {
		k, err := kubelet.Start(t.Context(), user, kubelet.Options{Node: node, Machine: machine, Backend: cluster.Driver})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(k.Stop)
		return k
	}
	v, err := fixture.BoundVolume(t.Context(), client, w.Namespace, "disk", corev1.ReadWriteOnce)
	if err != nil {
		t.Fatal(err)
	}
	first := start("machine-1")
	if _, err := fixture.CreatePod(t.Context(), client, fixture.Pod(w.Namespace, "first", node, v.Claim)); err != nil {
		t.Fatal(err)
	}
	await(t, fixture.PodRunning(client, w.Namespace, "first"))

	first.Stop()
	start("machine-2")
	if _, err := fixture.CreatePod(t.Context(), client, fixture.Pod(w.Namespace, "second", node, v.Claim)); err != nil {
		t.Fatal(err)
	}
	await(t, fixture.PodWaiting(client, w.Namespace, "second"), fixture.Attached(client, node, v))
	if err := fixture.Stays(t.Context(), time.Second, fixture.PodWaiting(client, w.Namespace, "second")); err != nil {
		t.Error(err)
	}
}
