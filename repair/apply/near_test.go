package apply

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/repair"
)

// arrives adds a pod that has run on the node with vol-1 since the epoch.
func (m *memory) arrives(node string) {
	pod := healthy(m.t).objects.Pods[0].DeepCopy()
	pod.Name, pod.UID, pod.Spec.NodeName = "web-9", "uid-web-9", node
	pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "pv1"
	started := running
	started.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(epoch)}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{started}}
	m.objects.Pods = append(m.objects.Pods, pod)
}

// takers are the worlds whose repair takes vol-1 from a node.
var takers = map[string]func(testing.TB) *memory{"delete": dangling, "by hand": byHand, "fenced": lostNode, "strip": stuck}

// TestPodInTheWindow: a pod comes to the node after the last look, which takes 12 s in a
// large cluster. The small reads right before the write see it.
func TestPodInTheWindow(t *testing.T) {
	for name, world := range takers {
		t.Run(name, func(t *testing.T) {
			m := world(t)
			r := m.only()
			m.looked = func() {
				m.looked = nil
				m.now = m.now.Add(12 * time.Second)
				m.arrives("n1")
			}
			a, sink := m.applier()
			results, err := a.Apply(t.Context(), []repair.Repair{r})
			if err != nil || len(m.stored) != 0 || results[0].Outcome != Skipped || results[0].Guard == "" || results[0].Detail == "" {
				t.Errorf("%d writes, %+v, %v", len(m.stored), results, err)
			}
			if e := sink.entries(); len(e) != 2 || e[1].Outcome != NotWritten {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestPodInTheLastMilliseconds: the pod comes after the small reads. The write is made, and
// the person who runs it is told which pod it may have hit, however well the rest went.
func TestPodInTheLastMilliseconds(t *testing.T) {
	for name, world := range takers {
		t.Run(name, func(t *testing.T) {
			m := world(t)
			r := m.only()
			m.before = times(1, false, func() error { m.arrives("n1"); return nil })
			a, sink := m.applier()
			results, err := a.Apply(t.Context(), []repair.Repair{r})
			if err != nil || len(m.stored) != 1 || results[0].Outcome != Unverified || !results[0].LeftUndone() ||
				!strings.Contains(results[0].Detail, "pod default/web-9 runs on node n1 with the volume since 10:00:00Z") {
				t.Errorf("%d writes, %+v, %v", len(m.stored), results, err)
			}
			if e := sink.entries(); e[len(e)-1].Outcome != Unverified || !strings.Contains(e[len(e)-1].Detail, "web-9") {
				t.Errorf("%+v", e)
			}
		})
	}
}

// TestWindowOfTheSecondWrite is the same test for the deletion that follows a creation.
func TestWindowOfTheSecondWrite(t *testing.T) {
	deleting := func(m *memory) func(func()) {
		return func(arrive func()) {
			m.before = func(op repair.Operation, dryRun bool) error {
				if op.Verb == repair.VerbDelete {
					arrive()
				}
				return nil
			}
		}
	}
	m := orphan(t)
	r := m.only()
	deleting(m)(func() { m.before = nil; m.arrives("n2") }) // with its dry run
	a, _ := m.applier()
	if results, err := a.Apply(t.Context(), []repair.Repair{r}); err != nil || len(m.stored) != 1 || results[0].Outcome != Unverified || !strings.Contains(results[0].Detail, "web-9") {
		t.Errorf("%d writes, %+v, %v", len(m.stored), results, err)
	}
	m = orphan(t)
	m.detachesOrphan()
	r = m.only()
	m.before = func(op repair.Operation, dryRun bool) error {
		if op.Verb == repair.VerbDelete && !dryRun {
			m.arrives("n2")
		}
		return nil
	}
	a, _ = m.applier()
	if results, err := a.Apply(t.Context(), []repair.Repair{r}); err != nil || len(m.stored) != 2 || results[0].Outcome != Unverified ||
		!strings.Contains(results[0].Detail, "pod default/web-9 runs on node n2") {
		t.Errorf("%d writes, %+v, %v", len(m.stored), results, err)
	}
}

// TestSmallReadsFail: where an object cannot be read right before the write, no write is
// made; where one cannot be read after a write that takes a volume, that is reported.
func TestSmallReadsFail(t *testing.T) {
	for _, world := range worlds[:17] {
		m := world(t)
		r := m.only()
		for name, fault := range map[string]error{"fails": errors.New("internal error"), "is slow": context.DeadlineExceeded} {
			m := world(t)
			m.nearing = func(int) error { return fault }
			a, sink := m.applier()
			results, err := a.Apply(t.Context(), []repair.Repair{r})
			if err != nil || len(m.stored) != 0 || results[0].Outcome != Skipped || results[0].Guard != repair.GuardComplete {
				t.Errorf("%s %s: %d writes, %+v, %v", r.Kind, name, len(m.stored), results, err)
			}
			if e := sink.entries(); len(e) != 2 || e[1].Outcome != NotWritten {
				t.Errorf("%+v", e)
			}
		}
	}
	m := dangling(t)
	r := m.only()
	m.nearing = func(n int) error {
		if n == 2 {
			return errors.New("internal error")
		}
		return nil
	}
	a, _ := m.applier()
	if results, err := a.Apply(t.Context(), []repair.Repair{r}); err != nil || len(m.stored) != 1 || results[0].Outcome != Unverified || !strings.Contains(results[0].Detail, "could not be read") {
		t.Errorf("%d writes, %+v, %v", len(m.stored), results, err)
	}
}

// TestUnknownClaimInTheWindow: a pod has come whose claim did not exist when the claims were
// read.
func TestUnknownClaimInTheWindow(t *testing.T) {
	m := dangling(t)
	r := m.only()
	m.looked = func() {
		m.looked = nil
		m.arrives("n1")
		pod := m.objects.Pods[len(m.objects.Pods)-1]
		pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "new"
	}
	a, _ := m.applier()
	results, err := a.Apply(t.Context(), []repair.Repair{r})
	if err != nil || len(m.stored) != 0 || results[0].Guard != repair.GuardComplete || !strings.Contains(results[0].Detail, "claim new") {
		t.Errorf("%d writes, %+v, %v", len(m.stored), results, err)
	}
}

// TestHeartbeatInTheWindow: after a change that concerns no guard the objects are read once
// more, and the write is made.
func TestHeartbeatInTheWindow(t *testing.T) {
	m := dangling(t)
	r := m.only()
	m.looked = func() {
		m.looked = nil
		m.rewrite("n1", "kubelet", func(n *corev1.Node) { n.Labels = map[string]string{"beat": "1"} })
	}
	a, _ := m.applier()
	results, err := a.Apply(t.Context(), []repair.Repair{r})
	// one small read more, and one after the write
	if err != nil || len(m.stored) != 1 || results[0].Outcome != Repaired || m.nears != 3 {
		t.Errorf("%d writes, %d small reads, %+v, %v", len(m.stored), m.nears, results, err)
	}
	m = dangling(t)
	r = m.only()
	m.nearing = func(n int) error {
		m.rewrite("n1", "kubelet", func(node *corev1.Node) { node.Labels = map[string]string{"beat": string(rune('a' + n))} })
		return nil
	}
	a, _ = m.applier()
	if results, err := a.Apply(t.Context(), []repair.Repair{r}); err != nil || len(m.stored) != 0 || results[0].Outcome != Failed {
		t.Errorf("%d writes, %+v, %v", len(m.stored), results, err)
	}
}

// TestOverIsWhatALookWouldShow: the few fresh objects over an old snapshot show the same as a
// whole look, where nothing else has changed.
func TestOverIsWhatALookWouldShow(t *testing.T) {
	for _, world := range worlds[:17] {
		m := world(t)
		r := m.only()
		old, err := m.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		view, _ := m.view()
		near := r.Write().Near(view)
		around, err := m.Near(t.Context(), old, near)
		if err != nil {
			t.Fatal(err)
		}
		if _, changed := around.Over(old); changed {
			t.Errorf("%s: what is the same counts as changed", r.Kind)
		}
		if len(near.Nodes) == 0 && r.Kind != repair.TouchVolume {
			t.Errorf("%s is about no node", r.Kind)
		}
		for _, node := range near.Nodes {
			m.arrives(string(node))
			m.objects.Pods = slices.DeleteFunc(m.objects.Pods, func(p *corev1.Pod) bool { return p.Name == "web-0" && p.Spec.NodeName == string(node) })
		}
		around, err = m.Near(t.Context(), old, near)
		if err != nil {
			t.Fatal(err)
		}
		fresh, changed := around.Over(old)
		whole, err := m.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if changed != (len(near.Nodes) > 0) || len(near.Nodes) > 0 && string(repair.Compact(fresh.Objects)) != string(repair.Compact(whole.Objects)) || len(fresh.Gaps) != len(old.Gaps) {
			t.Errorf("%s: %v\n%s\n%s", r.Kind, changed, repair.Compact(fresh.Pods), repair.Compact(whole.Pods))
		}
	}
}
