package facts

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// WrongMode is a clause: which container of the pod uses a Block volume as a file system, or the
// reverse; "" for none. The kubelet rejects such a volume before it asks for the attach
// (createVolumeSpec, desired_state_of_world_populator.go). volume is the pod's name for it, and
// pv may be nil.
func WrongMode(pod *corev1.Pod, volume string, pv *corev1.PersistentVolume) string {
	if pv == nil {
		return ""
	}
	block := BlockMode(pv)
	for c := range Containers(pod) {
		switch {
		case block && slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume }):
			return fmt.Sprintf("the volume has volumeMode Block, and container %s mounts it (volumeMounts)", c.Name)
		case !block && slices.ContainsFunc(c.VolumeDevices, func(d corev1.VolumeDevice) bool { return d.Name == volume }):
			return fmt.Sprintf("the volume has volumeMode Filesystem, and container %s uses it as a device (volumeDevices)", c.Name)
		}
	}
	return ""
}

// VolumeMode is the volume's mode, with the API server's default.
func VolumeMode(pv *corev1.PersistentVolume) corev1.PersistentVolumeMode {
	return ptr.Deref(pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
}

// BlockMode reports whether the volume is a raw device.
func BlockMode(pv *corev1.PersistentVolume) bool {
	return VolumeMode(pv) == corev1.PersistentVolumeBlock
}

// MountFailures are the failed mounts of the pod's volume, oldest first. names are those by
// which the kubelet may call it: the PV's and the pod's. A try in which the kubelet did not reach the
// API server says nothing of the volume, and is none of them.
func (p *View) MountFailures(pod *corev1.Pod, names ...string) []MountFailure {
	return slices.DeleteFunc(p.MountFailuresIn(InOrder(p.EventsOf(pod)), pod, names...), func(f MountFailure) bool { return ServerUnreached(f.Reason) })
}

// OwnershipReason is the reason of the kubelet's events about a slow change of
// ownership.
const OwnershipReason = "VolumePermissionChangeInProgress"

// ChangesOwner reports whether the event about a slow change of ownership is about the volume.
// Its path has the PV's name; an event without the path of any volume of the pod may be about
// each.
func (p *View) ChangesOwner(e *corev1.Event, pod *corev1.Pod, volume string) bool {
	if strings.Contains(e.Message, "/"+volume+"/") || strings.HasSuffix(e.Message, "/"+volume) {
		return true
	}
	for i := range pod.Spec.Volumes {
		other := &pod.Spec.Volumes[i]
		claim := p.ClaimOf(pod, other)
		if strings.Contains(e.Message, "/"+other.Name) || claim != nil && claim.Spec.VolumeName != "" && strings.Contains(e.Message, "/"+claim.Spec.VolumeName) {
			return false
		}
	}
	return true
}
