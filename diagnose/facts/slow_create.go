package facts

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot/trim"
)

// SlowCreate is a container that its runtime was told to create and has not. The runtime first
// looks at each mount of the container and, where SELinux is on, labels each file of a volume.
// Many files, or a mount that hangs, take it long.
type SlowCreate struct {
	Container string
	// Volume is the first of the container's volumes that is on a storage system, and PV its
	// PersistentVolume; nil for an inline volume.
	Volume *corev1.Volume
	PV     *corev1.PersistentVolume
	// Since is when the pod's Ready condition last changed, or else when the pod was bound.
	Since metav1.Time
}

// SlowCreate returns the first of the pod's containers that mounts a volume of a storage system.
func (p *View) SlowCreate(pod *corev1.Pod) (SlowCreate, bool) {
	for _, status := range pod.Status.ContainerStatuses {
		if w := status.State.Waiting; w == nil || !trim.StillCreates(w.Message) {
			continue
		}
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			driver, _ := p.CsiVolume(pod, v)
			pv := p.BoundVolume(pod, v)
			if mountedIn(pod, status.Name, v.Name) && (pv != nil && !BlockMode(pv) || v.NFS != nil || pv == nil && driver != "") {
				return SlowCreate{status.Name, v, pv, readySince(pod)}, true
			}
		}
	}
	return SlowCreate{}, false
}

// mountedIn reports whether the pod's container of that name mounts the volume.
func mountedIn(pod *corev1.Pod, container, volume string) bool {
	for _, c := range pod.Spec.Containers {
		for _, m := range c.VolumeMounts {
			if c.Name == container && m.Name == volume {
				return true
			}
		}
	}
	return false
}
