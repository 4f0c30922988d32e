package command_test

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/trace"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
)

// TestVolumeHealth: a driver's report about a claim and about the storage, in the fields that
// came with 1.37, is read from a real API server and from a file, and quoted where the pod's
// volume waits.
func TestVolumeHealth(t *testing.T) {
	w := &stageWorld{World: newWorld(t, scenario.Healthy), t: t, client: cluster.Client()}
	v := w.volume("offline")
	cluster.Driver.FailPublish(errors.New("no such disk"), v.Handle)
	t.Cleanup(func() { cluster.Driver.FailPublish(nil, v.Handle) })
	w.podOn(w.Node, "offline", "offline")

	claims := w.client.CoreV1().PersistentVolumeClaims(w.Namespace)
	claim, err := claims.Get(t.Context(), v.Claim, metav1.GetOptions{})
	w.check(err)
	claim.Status.HealthStatus = &corev1.VolumeHealthStatus{LastTransitionTime: metav1.Now(), HealthConditions: []corev1.VolumeHealthCondition{
		{Status: corev1.VolumeHealthInaccessible, Reason: "PoolFull", Message: "refused: token: very-secret"}}}
	_, err = claims.UpdateStatus(t.Context(), claim, metav1.UpdateOptions{})
	w.check(err)
	nodes := w.client.StorageV1().CSINodes()
	node, err := nodes.Get(t.Context(), w.Node, metav1.GetOptions{})
	w.check(err)
	node.Status.StorageHealth = []storagev1.StorageHealth{{Name: csidriver.Name, HealthConditions: []storagev1.StorageHealthCondition{
		{Status: storagev1.StorageUnreachable, Reason: "PathsDown", LastTransitionTime: metav1.Now()}}}}
	_, err = nodes.UpdateStatus(t.Context(), node, metav1.UpdateOptions{})
	w.check(err)

	file := t.TempDir() + "/snapshot.yaml"
	if r := doctor(t, "snapshot", file); r.Code != 0 {
		t.Fatalf("exit code %d: %s", r.Code, r.Stderr)
	}
	for what, args := range map[string][]string{"the cluster": nil, "a file": {"-f", file}} {
		r := doctor(t, append([]string{"trace", "pod/offline", "-n", w.Namespace, "-o", "json"}, args...)...)
		volume := parse[trace.Trace](t, r.Stdout).Volumes[0]
		i := slices.IndexFunc(volume.Stages, func(s trace.Stage) bool { return s.Stage == volume.Broken })
		if i < 0 {
			t.Fatalf("from %s: nothing waits: %s", what, r.Stdout)
		}
		for _, want := range []trace.Said{
			{By: "the driver, status.healthStatus of persistentvolumeclaim/" + w.Namespace + "/offline", Text: "Inaccessible, PoolFull: refused: token: ***", Means: "the volume cannot be accessed"},
			{By: "the driver, status.storageHealth of csinode/" + w.Node, Text: "StorageUnreachable, PathsDown: no message", Means: "the node does not reach the storage"},
		} {
			if !slices.ContainsFunc(volume.Stages[i].Said, func(s trace.Said) bool { s.At = nil; return s == want }) {
				t.Errorf("from %s: %+v is not among %+v", what, want, volume.Stages[i].Said)
			}
		}
	}
}
