package command_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
)

// soak is how long pods are moved about: longer than every threshold that a
// check grants to what is on its way, but for those of ten minutes.
const soak = 3*time.Minute + 30*time.Second

// TestMovingPodsAreNotReported moves a pod from node to node, now and then
// starting the next before the last has ended, and looks all the while: what is
// merely on its way is no finding, not even for information.
func TestMovingPodsAreNotReported(t *testing.T) {
	t.Parallel()
	w := newWorld(t, scenario.Healthy)
	client := cluster.Client()
	second, err := w.AddNode(t.Context(), w.Node+"-second")
	if err != nil {
		t.Fatal(err)
	}
	nodes := []string{second.Node(), w.Node}
	pod, end := w.Subject.Pod, time.Now().Add(soak)
	for i := 0; time.Now().Before(end); i++ {
		next := fixture.Pod(w.Namespace, fmt.Sprintf("web-%d", i+1), nodes[i%2], w.Subject.Volume.Claim)
		create := func() {
			if _, err := fixture.CreatePod(t.Context(), client, next); err != nil {
				t.Fatal(err)
			}
		}
		overlap := i%3 == 0
		if overlap {
			create()
		}
		if err := fixture.DeletePod(t.Context(), client, w.Namespace, pod); err != nil {
			t.Fatal(err)
		}
		if !overlap {
			await(t, fixture.PodGone(client, w.Namespace, pod))
			create()
		}
		quiet(t, w)
		await(t, fixture.PodRunning(client, w.Namespace, next.Name))
		quiet(t, w)
		pod = next.Name
	}
	for _, v := range cluster.Driver.Violations() {
		t.Error(v)
	}
}

func quiet(t *testing.T, w *scenario.World) {
	t.Helper()
	r := doctor(t, "diagnose", "-n", w.Namespace, "-o", "json", "--fail-on", "info")
	if r.Code != 0 {
		report := parse[diagnose.Report](t, r.Stdout)
		t.Fatalf("exit code %d while a pod moves: %+v", r.Code, report.Findings)
	}
}
