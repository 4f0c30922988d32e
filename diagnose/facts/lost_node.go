package facts

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
)

// Mounts reports whether the pod uses the volume, whether a container mounts it or not.
func (p *View) Mounts(pod *corev1.Pod, volume corev1.UniqueVolumeName) bool {
	for i := range pod.Spec.Volumes {
		if name, _, err := p.World.PodVolume(pod, &pod.Spec.Volumes[i]); err == nil && name == volume {
			return true
		}
	}
	return false
}

// HasNewUser reports whether a pod that uses the volume was made less than a minute ago: the
// one whose place it takes may have left as late, and what it leaves is still cleared away.
func (p *View) HasNewUser(volume corev1.UniqueVolumeName) bool {
	return slices.ContainsFunc(p.Snapshot.Pods, func(pod *corev1.Pod) bool {
		return !p.Lasted(pod.CreationTimestamp, ListsGrace) && p.Mounts(pod, volume) // few pods are young
	})
}

// AllDeleting reports whether somebody has deleted every pod of the list.
func AllDeleting(pods []*corev1.Pod) bool {
	return !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil })
}

// LostPodSince is since when a pod that is Terminating on a lost node keeps its volumes for
// nothing: its deletion was asked for, and the node is not Ready. Nobody keeps to the grace
// period there.
func (p *View) LostPodSince(pod *corev1.Pod) metav1.Time {
	return Latest(endAsked(pod), NotReadySince(p.Snapshot.Node(NodeOf(pod))))
}

// LostPodSeverity is how bad it is that a pod has been Terminating on a lost node since then
// and keeps a volume from others: no timer ends it.
func (p *View) LostPodSeverity(since metav1.Time) finding.Severity {
	switch {
	case p.Lasted(since, LostPodFails):
		return finding.Error
	case p.Lasted(since, LostPodWarns):
		return finding.Warning
	default:
		return finding.Info
	}
}
