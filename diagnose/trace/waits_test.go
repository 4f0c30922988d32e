package trace

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWaitsSince: a pod whose container has ended waits from then on, unless it runs again.
func TestWaitsSince(t *testing.T) {
	bound := time.Date(2026, 11, 17, 10, 0, 0, 0, time.UTC)
	ended := bound.Add(48 * time.Hour)
	last := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: metav1.NewTime(ended)}}
	again := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	runs := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, tt := range map[string]struct {
		containers []corev1.ContainerStatus
		want       time.Time
	}{
		"never ran":        {[]corev1.ContainerStatus{{State: again}}, bound},
		"is made again":    {[]corev1.ContainerStatus{{State: again, LastTerminationState: last}}, ended},
		"another one runs": {[]corev1.ContainerStatus{{State: again, LastTerminationState: last}, {State: runs}}, bound},
	} {
		pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: tt.containers, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(bound)},
		}}}
		if got := waitsSince(pod); !got.Time.Equal(tt.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
