package kubelet_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
)

var cluster *controlplane.Cluster

// stays is how long the controller must leave something unchanged; it decides ten times a
// second.
const stays = 2 * time.Second

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, controlplane.Options{}, func(c *controlplane.Cluster) { cluster = c }))
}

func healthy(t *testing.T) *scenario.World {
	t.Helper()
	name := strings.ToLower(t.Name())
	w, err := scenario.Healthy(t.Context(), cluster, scenario.Options{Namespace: name, Node: name + "-n1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	return w
}

func await(t *testing.T, conditions ...fixture.Condition) {
	t.Helper()
	if err := fixture.Await(t.Context(), fixture.All(conditions...)); err != nil {
		t.Fatal(err)
	}
}

// nodeReady is the condition that a node's Ready condition has the status, and that the node
// has or lacks the taints of an unreachable one.
func nodeReady(name string, status corev1.ConditionStatus, tainted bool) fixture.Condition {
	return fixture.Condition{
		What: "node " + name + " has Ready=" + string(status),
		Check: func(ctx context.Context) (bool, []runtime.Object, error) {
			node, err := cluster.Client().CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return false, nil, err
			}
			is := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == status
			})
			return is && (len(node.Spec.Taints) > 0) == tainted, []runtime.Object{node}, nil
		},
	}
}

func TestAnnouncesBeforeAttach(t *testing.T) {
	w := healthy(t)
	client := cluster.Client()
	v, err := fixture.BoundVolume(t.Context(), client, w.Namespace, "late", corev1.ReadWriteOnce)
	if err != nil {
		t.Fatal(err)
	}
	cluster.StopController()
	if _, err := fixture.CreatePod(t.Context(), client, fixture.Pod(w.Namespace, "late", w.Node, v.Claim)); err != nil {
		t.Fatal(err)
	}
	await(t,
		fixture.Attachment(client, w.Node, v, "announced only", func(s fixture.AttachmentState) bool {
			return s.InUse && !s.Listed && s.Attachment == nil
		}),
		fixture.PodWaiting(client, w.Namespace, "late"))
	if err := cluster.StartController(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, fixture.PodRunning(client, w.Namespace, "late"), fixture.Attached(client, w.Node, v))
}

func TestIgnoresUnreferencedVolume(t *testing.T) {
	w := healthy(t)
	client := cluster.Client()
	v, err := fixture.BoundVolume(t.Context(), client, w.Namespace, "unused", corev1.ReadWriteOnce)
	if err != nil {
		t.Fatal(err)
	}
	pod := fixture.Pod(w.Namespace, "unused", w.Node, v.Claim)
	pod.Spec.Containers[0].VolumeMounts = nil
	if _, err := fixture.CreatePod(t.Context(), client, pod); err != nil {
		t.Fatal(err)
	}
	await(t,
		fixture.PodRunning(client, w.Namespace, pod.Name),
		fixture.Attachment(client, w.Node, v, "attached, never in use", func(s fixture.AttachmentState) bool {
			return !s.InUse && s.Listed && s.Attached()
		}))
}

func TestForceDeletedPodIsUnmounted(t *testing.T) {
	w := healthy(t)
	client := cluster.Client()
	if err := fixture.ForceDeletePod(t.Context(), client, w.Namespace, w.Subject.Pod); err != nil {
		t.Fatal(err)
	}
	await(t,
		fixture.Detached(client, w.Node, w.Subject.Volume),
		fixture.Attached(client, w.Node, w.Neighbour.Volume))
}

func TestCrashLeavesEverything(t *testing.T) {
	w := healthy(t)
	client := cluster.Client()
	w.Kubelet.Stop()
	if err := fixture.DeletePod(t.Context(), client, w.Namespace, w.Subject.Pod); err != nil {
		t.Fatal(err)
	}
	// The controller must not detach a volume that the dead kubelet has not released.
	if err := fixture.Stays(t.Context(), stays, fixture.Attached(client, w.Node, w.Subject.Volume)); err != nil {
		t.Fatal(err)
	}
	if err := w.Kubelet.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t,
		fixture.PodGone(client, w.Namespace, w.Subject.Pod),
		fixture.Detached(client, w.Node, w.Subject.Volume),
		fixture.PodRunning(client, w.Namespace, w.Neighbour.Pod),
		fixture.Attached(client, w.Node, w.Neighbour.Volume))
}

func TestSilentNodeComesBack(t *testing.T) {
	w := healthy(t)
	await(t, nodeReady(w.Node, corev1.ConditionTrue, false))
	if err := w.Kubelet.StopHeartbeat(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t, nodeReady(w.Node, corev1.ConditionUnknown, true))
	if err := w.Kubelet.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	await(t,
		nodeReady(w.Node, corev1.ConditionTrue, false),
		fixture.PodRunning(cluster.Client(), w.Namespace, w.Subject.Pod))
}
