package facts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Mounts says that the pod uses the volume, whether a container mounts it or not.
func (p *View) Mounts(pod *corev1.Pod, volume corev1.UniqueVolumeName) bool {
	for i := range pod.Spec.Volumes {
		if name, _, err := p.World.PodVolume(pod, &pod.Spec.Volumes[i]); err == nil && name == volume {
			return true
		}
	}
	return false
}

// AllDeleting says that somebody has deleted every pod of the list.
func AllDeleting(pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil })
}
