package diagnose

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// allocatable is how many volumes the driver says the node can take; -1 where
// it names no limit.
func allocatable(csiNode *storagev1.CSINode, driver string) int {
	if csiNode == nil {
		return -1
	}
	for _, d := range csiNode.Spec.Drivers {
		if d.Name == driver && d.Allocatable != nil && d.Allocatable.Count != nil {
			return int(*d.Allocatable.Count)
		}
	}
	return -1
}

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
	for _, a := range f.onNode[node] {
		if a.Spec.Attacher == driver {
			names.Insert(a.Volume)
		}
	}
	return names.Len()
}

// driverVolume is the volume's name where it is the driver's; volumes that are
// not attached take a place, too.
func driverVolume(v flightVolume, driver string) corev1.UniqueVolumeName {
	if d, _, ok := reconcile.ParseCSI(v.name); ok && d == driver {
		return v.name
	}
	if csi := v.pv.Spec.CSI; csi != nil && csi.Driver == driver {
		return corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^" + csi.VolumeHandle)
	}
	return ""
}
