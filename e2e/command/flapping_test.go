package command_test

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
	"github.com/volume-doctor/kubectl-volume-doctor/output"
)

// TestFlappingEntryIsAlwaysSeen: the controller takes an entry of volumesAttached for which
// it has no plugin off the list and puts it back in each of its passes, some fifteen writes a
// second. No look may find it missing.
//
// It is not parallel, because it stops the controller of all tests.
func TestFlappingEntryIsAlwaysSeen(t *testing.T) {
	const left = corev1.UniqueVolumeName("kubernetes.io/left-behind/disk")
	w := newWorld(t, scenario.Healthy)
	nodes := cluster.Client().CoreV1().Nodes()
	// A controller knows such an entry only from its start.
	restartWith := func(ctx context.Context, change func([]corev1.AttachedVolume) []corev1.AttachedVolume) error {
		cluster.StopController()
		node, err := nodes.Get(ctx, w.Node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		node.Status.VolumesAttached = change(node.Status.VolumesAttached)
		if _, err := nodes.UpdateStatus(ctx, node, metav1.UpdateOptions{}); err != nil {
			return err
		}
		return cluster.StartController(ctx)
	}
	isLeft := func(v corev1.AttachedVolume) bool { return v.Name == left }
	if err := restartWith(t.Context(), func(list []corev1.AttachedVolume) []corev1.AttachedVolume {
		return append(list, corev1.AttachedVolume{Name: left})
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := restartWith(context.WithoutCancel(t.Context()), func(list []corev1.AttachedVolume) []corev1.AttachedVolume {
			return slices.DeleteFunc(list, isLeft)
		}); err != nil {
			t.Error(err)
		}
	})

	written := func() int {
		node, err := nodes.Get(t.Context(), w.Node, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for range 20 { // once in ten looks, or so
			time.Sleep(20 * time.Millisecond)
			again, err := nodes.Get(t.Context(), w.Node, metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if again.ResourceVersion != node.ResourceVersion {
				n++
			}
			node = again
		}
		return n
	}
	deadline := time.Now().Add(30 * time.Second)
	for written() < 4 {
		if time.Now().After(deadline) {
			t.Fatal("the controller does not write the node over and over")
		}
	}
	slow := 0
	for look := 0; look < 40; look++ {
		plan := parse[output.Plan](t, doctor(t, "plan", "node/"+w.Node, "-o", "json").Stdout)
		i := slices.IndexFunc(plan.NodeStatus, func(n output.PlanNodeStatus) bool { return string(n.Node) == w.Node })
		switch {
		case i >= 0 && slices.Contains(plan.NodeStatus[i].Flapping, left):
		case written() < 4 && slow < 4: // on a busy machine the passes take longer than our readings
			slow++
			look--
		default:
			t.Errorf("look %d does not have it: %+v", look, plan.NodeStatus)
		}
	}
}
