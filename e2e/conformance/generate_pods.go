package conformance

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (g *generator) pods() {
	for i := range g.between(0, 8) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pick(g, "a", "a", "b"), Name: fmt.Sprintf("p%d", i+1), UID: g.uid()}}
		if g.chance(0.95) {
			pod.Spec.NodeName = g.node()
		}
		for v := range g.between(0, 3) {
			pod.Spec.Volumes = append(pod.Spec.Volumes, g.podVolume(pod, fmt.Sprintf("v%d", v+1)))
		}
		g.podStatus(pod)
		g.c.Pods = append(g.c.Pods, pod)
	}
}

func (g *generator) podVolume(pod *corev1.Pod, name string) corev1.Volume {
	v := corev1.Volume{Name: name}
	switch {
	case g.chance(0.2):
		v.VolumeSource = g.inline()
	case g.chance(0.2):
		v.Ephemeral = &corev1.EphemeralVolumeSource{}
		if g.chance(0.9) {
			g.ephemeralClaim(pod, name)
		}
	default:
		v.PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: g.claimName(pod), ReadOnly: g.chance(0.1)}
	}
	return v
}

// claimName moves the pod to the namespace of the claim that it picks. The first claim is
// picked most often, so that nodes compete for its volume.
func (g *generator) claimName(pod *corev1.Pod) string {
	if len(g.c.Claims) == 0 || g.chance(0.08) {
		return pick(g, "missing", "")
	}
	claim := pick(g, g.c.Claims...)
	if g.chance(0.3) {
		claim = g.c.Claims[0]
	}
	if len(pod.Spec.Volumes) == 0 {
		pod.Namespace = claim.Namespace
	}
	return claim.Name
}

// ephemeralClaim makes the claim of a generic ephemeral volume: on a volume of
// its own or on one that is taken from another claim.
func (g *generator) ephemeralClaim(pod *corev1.Pod, volume string) {
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name + "-" + volume, UID: g.uid()},
		Status:     corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	pv := g.c.Volumes[g.r.IntN(len(g.c.Volumes))]
	if g.chance(0.8) {
		pv = g.volume("pv-" + claim.Name)
	}
	claim.Spec.VolumeName = pv.Name
	if g.chance(0.1) {
		claim.Status.Phase = pick(g, corev1.ClaimPending, corev1.ClaimLost)
	}
	pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: new(true)}
	switch {
	case g.chance(0.1):
		owner.UID = "other"
	case g.chance(0.1):
		owner.Controller = nil
	}
	if g.chance(0.95) {
		claim.OwnerReferences = []metav1.OwnerReference{owner}
	}
	g.c.Claims = append(g.c.Claims, claim)
}

// podStatus covers each phase and each mixture of container states, alive and
// being deleted.
func (g *generator) podStatus(pod *corev1.Pod) {
	pod.Status.Phase = pick(g,
		corev1.PodRunning, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown, "")
	if g.chance(0.3) {
		pod.DeletionTimestamp, pod.Finalizers = &metav1.Time{Time: now}, []string{"x/y"}
	}
	pod.Status.InitContainerStatuses = g.containers(1)
	pod.Status.ContainerStatuses = g.containers(2)
	pod.Status.EphemeralContainerStatuses = g.containers(1)
}

func (g *generator) containers(atMost int) []corev1.ContainerStatus {
	var list []corev1.ContainerStatus
	for i := range g.between(0, atMost) {
		list = append(list, corev1.ContainerStatus{Name: fmt.Sprintf("c%d", i), State: pick(g,
			corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
			corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}},
			corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}},
			corev1.ContainerState{},
		)})
	}
	return list
}
