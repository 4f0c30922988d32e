package preflight

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// used counts as the scheduler does: the volumes of all pods on the node that
// have not ended, and what is attached there beside them.
func (f *flight) used(node types.NodeName, driver string) int {
	names := sets.New[corev1.UniqueVolumeName]()
	for _, pod := range f.Snapshot.PodsOnNode(node) {
		if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		for _, v := range f.volumesOf(pod) {
			if name := driverVolume(v, driver); name != "" {
				names.Insert(name)
			}
		}
	}
	for _, a := range f.AttachmentsByNode()[string(node)] {
		if a.Spec.Attacher == driver {
			names.Insert(a.Volume)
		}
	}
	return names.Len()
}

// driverVolume is the volume's name where it is the driver's; volumes that are not attached take
// a place, too.
func driverVolume(v flightVolume, driver string) corev1.UniqueVolumeName {
	if d, _, ok := reconcile.ParseCSI(v.name); ok && d == driver {
		return v.name
	}
	if csi := v.pv.Spec.CSI; csi != nil && csi.Driver == driver {
		return reconcile.CSIVolumeName(driver, csi.VolumeHandle)
	}
	return ""
}
