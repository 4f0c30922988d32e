package command_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/preflight"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/csidriver"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/fixture"
	"github.com/volume-doctor/kubectl-volume-doctor/e2e/scenario"
)

// TestPreflight looks ahead for a node from which one pod cannot move, one finds no room for
// its volume, and one has no controller; then for a node without such pods, and drains it.
//
// It is not parallel, because the end of its world heals the driver of all tests.
func TestPreflight(t *testing.T) {
	w := &stageWorld{World: newWorld(t, scenario.Healthy), t: t, client: cluster.Client()}
	written := adminWrites(t)
	other := w.Node + "-other"
	_, err := w.AddNode(t.Context(), other)
	w.check(err)

	tied, moves, elsewhere := w.volume("tied"), w.volume("moves"), w.volume("elsewhere")
	volumes := w.client.CoreV1().PersistentVolumes()
	pv, err := volumes.Get(t.Context(), tied.PersistentVolume, metav1.GetOptions{})
	w.check(err)
	pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{w.Node}}}}}}}
	_, err = volumes.Update(t.Context(), pv, metav1.UpdateOptions{})
	w.check(err)
	w.owned(w.Node, "tied", tied)
	w.owned(w.Node, "moves", moves)
	w.owned(other, "elsewhere", elsewhere)
	w.limit(other, 1)
	for name, at := range map[string]struct {
		node   string
		volume fixture.Volume
	}{"tied": {w.Node, tied}, "moves": {w.Node, moves}, "elsewhere": {other, elsewhere}} {
		await(t, fixture.All(fixture.PodRunning(w.client, w.Namespace, name), fixture.Attached(w.client, at.node, at.volume)))
	}

	p := w.preflight(1)
	if len(p.Drain.Hangs) != 1 || len(p.Loss.Hangs) != 1 || p.Drain.Hangs[0].PersistentVolume != tied.PersistentVolume ||
		!strings.Contains(p.Drain.Hangs[0].Because, "its node affinity suits no other node") {
		t.Errorf("hangs %+v and %+v, want the volume that is tied to the node", p.Drain.Hangs, p.Loss.Hangs)
	}
	want := []string{
		// no controller makes the world's own two pods again
		"db-0 Pod never", "moves Unmount 2m40s", "tied Node never", "web-0 Pod never",
	}
	if got := waits(p.Drain); !slices.Equal(got, want) {
		t.Errorf("a drain waits for\n%v, want\n%v", got, want)
	}
	if want := []string{w.Namespace + "/db-0", w.Namespace + "/web-0"}; !slices.Equal(p.Stranded, want) {
		t.Errorf("stranded %v, want %v", p.Stranded, want)
	}
	if len(p.Room) != 1 || p.Room[0].Driver != csidriver.Name || p.Room[0].Moving != 2 || p.Room[0].Free != 0 || p.Room[0].Unlimited || p.Room[0].Lacking != 1 ||
		!slices.Equal(p.Room[0].Pods, []string{w.Namespace + "/moves"}) {
		t.Errorf("room %+v, want none for the one volume that can move", p.Room)
	}
	if !slices.Contains(p.NotExamined, "PodDisruptionBudgets") {
		t.Errorf("what is not examined is not said: %v", p.NotExamined)
	}

	// With room, and without the tied pod, the preflight says that nothing hangs, and nothing
	// does.
	w.limit(other, 2)
	w.check(fixture.DeletePod(t.Context(), w.client, w.Namespace, "tied"))
	await(t, fixture.All(fixture.PodGone(w.client, w.Namespace, "tied"), fixture.Detached(w.client, w.Node, tied)))
	p = w.preflight(0)
	if len(p.Room) != 1 || p.Room[0].Free != 1 || p.Room[0].Lacking != 0 {
		t.Errorf("room %+v, want it for one", p.Room)
	}
	i := slices.IndexFunc(p.Drain.Waits, func(v preflight.Wait) bool { return v.PersistentVolume == moves.PersistentVolume })
	atMost, err := time.ParseDuration(p.Drain.Waits[i].AtMost)
	w.check(err)
	start := time.Now()
	w.check(fixture.DeletePod(t.Context(), w.client, w.Namespace, "moves"))
	await(t, fixture.PodGone(w.client, w.Namespace, "moves"))
	w.owned(other, "moves-on", moves)
	await(t, fixture.All(fixture.PodRunning(w.client, w.Namespace, "moves-on"), fixture.Attached(w.client, other, moves), fixture.Detached(w.client, w.Node, moves)))
	if took := time.Since(start); took > atMost {
		t.Errorf("the hand-over took %s, preflight said at most %s", took, atMost)
	}
	if now := adminWrites(t); now != written {
		t.Errorf("preflight has made %d writes", now-written)
	}
	for _, v := range cluster.Driver.Violations() {
		t.Error(v)
	}
}

func (w *stageWorld) preflight(code int) preflight.Preflight {
	w.t.Helper()
	r := doctor(w.t, "preflight", "node/"+w.Node, "-o", "json")
	p := parse[preflight.Preflight](w.t, r.Stdout)
	if r.Code != code || !p.Complete || len(p.Missing) > 0 {
		w.t.Fatalf("exit code %d, want %d; missing %v", r.Code, code, p.Missing)
	}
	return p
}

// waits is a line for each wait, without the namespace.
func waits(s preflight.Scenario) []string {
	var lines []string
	for _, v := range s.Waits {
		_, pod, _ := strings.Cut(v.Pod, "/")
		atMost := v.AtMost
		if v.Never {
			atMost = "never"
		}
		lines = append(lines, fmt.Sprintf("%s %s %s", pod, v.For, atMost))
	}
	slices.Sort(lines)
	return lines
}

// owned creates a pod that a ReplicaSet would make again.
func (w *stageWorld) owned(node, name string, v fixture.Volume) {
	w.t.Helper()
	yes := true
	pod := fixture.Pod(w.Namespace, name, node, v.Claim)
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: name, UID: "of-no-replicaset", Controller: &yes}}
	_, err := fixture.CreatePod(w.t.Context(), w.client, pod)
	w.check(err)
}

// limit sets how many volumes the node can take, as the driver reports it.
func (w *stageWorld) limit(node string, count int32) {
	w.t.Helper()
	csiNodes := w.client.StorageV1().CSINodes()
	w.check(retry.RetryOnConflict(retry.DefaultRetry, func() error {
		csiNode, err := csiNodes.Get(w.t.Context(), node, metav1.GetOptions{})
		if err != nil {
			return err
		}
		for i := range csiNode.Spec.Drivers {
			csiNode.Spec.Drivers[i].Allocatable = &storagev1.VolumeNodeResources{Count: &count}
		}
		_, err = csiNodes.Update(w.t.Context(), csiNode, metav1.UpdateOptions{})
		return err
	}))
}
