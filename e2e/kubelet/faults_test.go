package kubelet_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/kubelet"
)

// said is the condition that an event of the pod has the reason and contains the words.
func said(namespace, name, reason, words string) fixture.Condition {
	return fixture.Condition{What: "pod " + name + " is told " + words, Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		pod, err := cluster.Client().CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, nil, err
		}
		events, err := fixture.Events(ctx, cluster.Client(), pod)
		for _, e := range events {
			if e.Reason == reason && e.Count > 1 && strings.Contains(e.Message, words) {
				return true, nil, nil
			}
		}
		return false, []runtime.Object{pod}, err
	}}
}

func TestFailedMountIsReported(t *testing.T) {
	w := healthy(t)
	client := cluster.Client()
	v, err := fixture.BoundVolume(t.Context(), client, w.Namespace, "broken", corev1.ReadWriteOnce)
	if err != nil {
		t.Fatal(err)
	}
	w.Kubelet.FailMount(v.PersistentVolume, kubelet.MountFailed("MountVolume.MountDevice failed", v.PersistentVolume, "the disk is broken"))
	if _, err := fixture.CreatePod(t.Context(), client, fixture.Pod(w.Namespace, "broken", w.Node, v.Claim)); err != nil {
		t.Fatal(err)
	}
	await(t,
		said(w.Namespace, "broken", "FailedMount", "the disk is broken"),
		fixture.PodWaiting(client, w.Namespace, "broken"),
		fixture.Attached(client, w.Node, v))
}

func TestFailedUnmountKeepsThePod(t *testing.T) {
	w := healthy(t)
	client := cluster.Client()
	w.Kubelet.FailUnmount(w.Subject.Volume.PersistentVolume)
	if err := fixture.DeletePod(t.Context(), client, w.Namespace, w.Subject.Pod); err != nil {
		t.Fatal(err)
	}
	ended := fixture.Condition{What: "the pod has ended", Check: func(ctx context.Context) (bool, []runtime.Object, error) {
		pod, err := client.CoreV1().Pods(w.Namespace).Get(ctx, w.Subject.Pod, metav1.GetOptions{})
		if err != nil {
			return false, nil, err
		}
		return pod.Status.Phase == corev1.PodSucceeded, []runtime.Object{pod}, nil
	}}
	await(t, ended)
	if err := fixture.Stays(t.Context(), stays, fixture.All(ended, fixture.Attached(client, w.Node, w.Subject.Volume))); err != nil {
		t.Fatal(err)
	}
}

func TestFailedUnstageKeepsTheVolume(t *testing.T) {
	w := healthy(t)
	client := cluster.Client()
	w.Kubelet.FailUnstage(w.Subject.Volume.PersistentVolume)
	if err := fixture.DeletePod(t.Context(), client, w.Namespace, w.Subject.Pod); err != nil {
		t.Fatal(err)
	}
	await(t, fixture.PodGone(client, w.Namespace, w.Subject.Pod))
	if err := fixture.Stays(t.Context(), stays, fixture.Attached(client, w.Node, w.Subject.Volume)); err != nil {
		t.Fatal(err)
	}
}
