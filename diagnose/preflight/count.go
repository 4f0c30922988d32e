package preflight

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// HangingVolumes counts the volumes that hang.
func (s Scenario) HangingVolumes() int {
	volumes := sets.New[corev1.UniqueVolumeName]()
	for _, h := range s.Hangs {
		volumes.Insert(h.Volume)
	}
	return len(volumes)
}

// Perhaps reports whether all hangs depend on unknown facts.
func (p *Preflight) Perhaps() bool {
	return !slices.ContainsFunc(slices.Concat(p.Drain.Hangs, p.Loss.Hangs), func(h Hang) bool { return !h.Perhaps })
}

// Staying counts the pods that no timer brings back.
func (s Scenario) Staying() int {
	pods := sets.New[string]()
	for _, w := range s.Waits {
		if w.Never {
			pods.Insert(w.Pod)
		}
	}
	return len(pods)
}

// HangingPods counts the pods that hang. Each may have a row for each of several volumes.
func (u *Upgrade) HangingPods() int {
	pods := sets.New[string]()
	for _, p := range u.Pods {
		pods.Insert(p.Pod)
	}
	return len(pods)
}
