package claims

import (
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWaits tells the life of a pod, a minute each: when it waits for a volume, and since when it
// runs.
func TestWaits(t *testing.T) {
	var (
		none    = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
		started = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		died    = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	)
	life := []struct {
		what   string
		change func(*corev1.Pod)
		waits  bool
		runs   time.Duration // since then; 0 for not at all
	}{
		{"it is made", func(*corev1.Pod) {}, false, 0},
		{"it is on a node", func(p *corev1.Pod) { p.Spec.NodeName = "n1" }, true, 0},
		{"its kubelet admits it", func(p *corev1.Pod) { p.Status.ContainerStatuses = []corev1.ContainerStatus{{State: none}} }, true, 0},
		{"it runs", func(p *corev1.Pod) { p.Status.Phase, p.Status.ContainerStatuses[0].State = corev1.PodRunning, started }, false, 3 * time.Minute},
		{"its machine starts again", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = died }, true, 0},
		{"it runs again", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = started }, false, 5 * time.Minute},
		{"it is to go", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, false, 0},
		{"its containers end", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State = died }, true, 0},
	}
	synctest.Test(t, func(t *testing.T) {
		began, truth := time.Now(), NewTruth()
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "1"}}
		for _, step := range life {
			step.change(pod)
			truth.Pod(nil, pod.DeepCopy())
			time.Sleep(time.Minute)
		}
		truth.Pod(pod, nil)
		p := truth.Pods()[0]
		for i, step := range life {
			when := began.Add(time.Duration(i)*time.Minute + time.Second)
			if got := p.Waits(when); got != step.waits {
				t.Errorf("%s: waits %t", step.what, got)
			}
			var runs time.Duration
			if since := p.runs(when); !since.IsZero() {
				runs = since.Sub(began)
			}
			if runs != step.runs {
				t.Errorf("%s: runs since %s", step.what, runs)
			}
		}
		for i, want := range map[int]struct {
			at  time.Duration
			ran bool
		}{1: {3 * time.Minute, true}, 4: {5 * time.Minute, true}, 7: {8 * time.Minute, false}} {
			if at, ran := p.Served(began.Add(time.Duration(i)*time.Minute + time.Second)); at.Sub(began) != want.at || ran != want.ran {
				t.Errorf("%s: served after %s, ran %t", life[i].what, at.Sub(began), ran)
			}
		}
	})
}
