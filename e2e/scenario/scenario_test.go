package scenario_test

import (
	"context"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/controlplane"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
)

// syncPeriod is short, so that a test can outlast it: after each period the
// controller compares what it believes attached with the VolumeAttachments, its
// only chance to notice a drift by itself.
const syncPeriod = 5 * time.Second

// quiet is how long a broken world has to stay as it is: two such periods.
const quiet = 2*syncPeriod + time.Second

var cluster *controlplane.Cluster

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // they wait, whatever the number of processors
		panic(err)
	}
	options := controlplane.Options{ReconcileSyncPeriod: syncPeriod}
	os.Exit(controlplane.Main(m, options, func(c *controlplane.Cluster) { cluster = c }))
}

type build func(context.Context, *controlplane.Cluster, scenario.Options) (*scenario.World, error)

// newWorld builds a world of the test's own and removes it afterwards.
func newWorld(t *testing.T, build build) *scenario.World {
	t.Helper()
	name := strings.ToLower(t.Name())
	w, err := build(t.Context(), cluster, scenario.Options{Namespace: name, Node: name + "-n1"})
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

func await(t *testing.T, condition fixture.Condition) {
	t.Helper()
	if err := fixture.Await(t.Context(), condition); err != nil {
		t.Fatal(err)
	}
}

func noViolations(t *testing.T) {
	t.Helper()
	for _, v := range cluster.Driver.Violations() {
		t.Error(v)
	}
}

func TestHealthyPodRuns(t *testing.T) {
	w := newWorld(t, scenario.Healthy)
	for _, load := range []scenario.Workload{w.Subject, w.Neighbour} {
		await(t, fixture.Attached(cluster.Client(), w.Node, load.Volume))
		if nodes := cluster.Driver.PublishedOn(load.Volume.Handle); !slices.Equal(nodes, []string{w.Node}) {
			t.Errorf("volume %s is published on %v, want %s", load.Volume.Handle, nodes, w.Node)
		}
	}
	noViolations(t)
}

func TestPodMovesBetweenNodes(t *testing.T) {
	w := newWorld(t, scenario.Healthy)
	client := cluster.Client()
	second, err := w.AddNode(t.Context(), w.Namespace+"-n2")
	if err != nil {
		t.Fatal(err)
	}

	calls := len(cluster.Driver.History(w.Subject.Volume.Handle))

	// Created while the old pod still ends: the controller has to wait.
	if err := fixture.DeletePod(t.Context(), client, w.Namespace, w.Subject.Pod); err != nil {
		t.Fatal(err)
	}
	moved := fixture.Pod(w.Namespace, "web-moved", second.Node(), w.Subject.Volume.Claim)
	if _, err := fixture.CreatePod(t.Context(), client, moved); err != nil {
		t.Fatal(err)
	}
	await(t, fixture.PodRunning(client, w.Namespace, moved.Name))
	await(t, fixture.Detached(client, w.Node, w.Subject.Volume))
	await(t, fixture.Attached(client, second.Node(), w.Subject.Volume))
	noViolations(t)

	var order []string
	for _, call := range cluster.Driver.History(w.Subject.Volume.Handle)[calls:] {
		verb := "unpublish"
		if call.Publish {
			verb = "publish"
		}
		order = append(order, verb+" "+call.Node)
	}
	want := []string{"unpublish " + w.Node, "publish " + second.Node()}
	if !slices.Equal(slices.Compact(order), want) {
		t.Errorf("the driver was asked to %v, want %v", order, want)
	}
}

func TestBackoffDropStaysPending(t *testing.T) {
	w := newWorld(t, scenario.BackoffDrop)
	client := cluster.Client()
	stuck := fixture.All(
		w.Dropped(),
		fixture.PodWaiting(client, w.Namespace, w.Subject.Pod),
		fixture.PodRunning(client, w.Namespace, w.Neighbour.Pod),
	)
	if err := fixture.Stays(t.Context(), quiet, stuck); err != nil {
		t.Fatal(err)
	}
	if events := eventsOf(t, w); len(events) > 0 {
		t.Errorf("the waiting pod has events, although nobody knows of its trouble: %v", events)
	}

	// The missing entry is all that the pod waits for, and the controller lets
	// it stand.
	if err := fixture.AddVolumesAttached(t.Context(), client, w.Node, w.Subject.Volume.UniqueName()); err != nil {
		t.Fatal(err)
	}
	await(t, fixture.PodRunning(client, w.Namespace, w.Subject.Pod))
	if err := fixture.Stays(t.Context(), quiet, fixture.Attached(client, w.Node, w.Subject.Volume)); err != nil {
		t.Error(err)
	}
	noViolations(t)
}

// TestHeal: where the driver, or its node plugin, is what fails, the pod runs once an admin
// has seen to it.
func TestHeal(t *testing.T) {
	for name, build := range map[string]build{"plugin-missing": scenario.PluginMissing, "disk-lost": scenario.DiskLost, "busy-disk": scenario.BusyDisk} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := brokenWorld(t, build, "heal-"+name)
			await(t, fixture.PodWaiting(cluster.Client(), w.Namespace, w.Subject.Pod))
			if err := w.Heal(t.Context()); err != nil {
				t.Fatal(err)
			}
			await(t, fixture.PodRunning(cluster.Client(), w.Namespace, w.Subject.Pod))
		})
	}
}

func TestReuseWhileDetaching(t *testing.T) {
	w := newWorld(t, scenario.ReuseWhileDetaching)
	client := cluster.Client()
	if err := fixture.Stays(t.Context(), quiet, w.Detaching()); err != nil {
		t.Fatal(err)
	}
	await(t, fixture.PodWaiting(client, w.Namespace, w.Subject.Pod))
	attachment, err := client.StorageV1().VolumeAttachments().Get(t.Context(), w.Subject.Volume.AttachmentName(w.Node), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if message := attachment.Status.DetachError.Message; !strings.Contains(message, scenario.DeviceBusy) {
		t.Errorf("detachError is %q, want it to contain %q", message, scenario.DeviceBusy)
	}
	const says = "volume attachment is being deleted"
	if !slices.ContainsFunc(eventsOf(t, w), func(e corev1.Event) bool { return strings.Contains(e.Message, says) }) {
		t.Errorf("no event of the pod says %q", says)
	}

	cluster.Driver.FailUnpublish(nil)
	await(t, fixture.PodRunning(client, w.Namespace, w.Subject.Pod))
	noViolations(t)
}

// eventsOf lists the events of the subject as it is now.
func eventsOf(t *testing.T, w *scenario.World) []corev1.Event {
	t.Helper()
	pod, err := cluster.Client().CoreV1().Pods(w.Namespace).Get(t.Context(), w.Subject.Pod, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	events, err := fixture.Events(t.Context(), cluster.Client(), pod)
	if err != nil {
		t.Fatal(err)
	}
	return events
}
