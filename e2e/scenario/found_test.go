package scenario_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	doctor "github.com/volume-doctor/kubectl-volume-doctor/cluster"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
)

// foundWithin is how long a cause may stay unnamed in a world of the sandbox.
const foundWithin = 3 * time.Minute

// TestBrokenWorldsAreFound: each broken world of the sandbox has a finding of the check
// that is about it, which names the pod.
func TestBrokenWorldsAreFound(t *testing.T) {
	for check, build := range map[string]build{
		"inuse-not-attached":        scenario.BackoffDrop,
		"reuse-while-detaching":     scenario.ReuseWhileDetaching,
		"va-stuck-deleting":         scenario.BusyDisk,
		"rwo-many-consumers":        scenario.TwoNodes,
		"attach-refused":            scenario.DiskLost,
		"attach-limit":              scenario.NodeFull,
		"csinode-driver-missing":    scenario.PluginMissing,
		"orphan-backend-attachment": scenario.TakenElsewhere,
	} {
		t.Run(check, func(t *testing.T) {
			t.Parallel()
			w, err := build(t.Context(), cluster, scenario.Options{Namespace: check, Node: check + "-n1"})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := w.Close(context.WithoutCancel(t.Context())); err != nil {
					t.Error(err)
				}
			})
			if err := fixture.AwaitFor(t.Context(), foundWithin, named(w, check)); err != nil {
				t.Error(err)
			}
		})
	}
}

// named says that a finding of the check, certain or suspected, names the subject.
func named(w *scenario.World, check string) fixture.Condition {
	pod := w.Namespace + "/" + w.Subject.Pod
	return fixture.Condition{
		What: fmt.Sprintf("%s names pod %s", check, pod),
		Check: func(ctx context.Context) (bool, []runtime.Object, error) {
			c, err := doctor.New(cluster.RESTConfig(), doctor.Options{})
			if err != nil {
				return false, nil, err
			}
			s, err := c.Snapshot(ctx)
			if err != nil {
				return false, nil, err
			}
			report := diagnose.Diagnose(s, diagnose.Options{})
			return slices.ContainsFunc(report.Findings, func(f finding.Finding) bool { return f.Check == check && f.Names(pod) }), nil, nil
		},
	}
}
