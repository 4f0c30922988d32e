package facts

import (
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// UsersByName are the pods on the node whose claims name the volume, whether or not it exists,
// the longest first.
func (p *View) UsersByName(pv, node string) []*corev1.Pod {
	var users []*corev1.Pod
	for _, claim := range p.ClaimsNaming(pv) {
		for _, pod := range p.ClaimUsers(claim) {
			if pod.Spec.NodeName == node && !slices.Contains(users, pod) && !reconcile.PodTerminated(pod) {
				users = append(users, pod)
			}
		}
	}
	return LongestFirst(users)
}

// StillUsed is what to do before the disk of the VolumeAttachment is detached without the
// attach/detach controller, which alone waits for the kubelet. It names who may have the disk
// mounted and how that ends; nil where the objects show nobody.
func (p *View) StillUsed(va *storagev1.VolumeAttachment) error {
	node := p.Snapshot.Node(types.NodeName(va.Spec.NodeName))
	users := p.UsersByName(VolumeName(va), va.Spec.NodeName)
	disks := p.NodeHandles(va)
	if driver, handle, known := p.AskedDisk(va); known {
		disk := reconcile.CSIVolumeName(driver, handle)
		disks = append(disks, disk)
		users = append(users, p.World.LivePods(reconcile.VolumeNode{Volume: disk, Node: types.NodeName(va.Spec.NodeName)})...)
	}
	switch {
	case len(users) > 0:
		return fmt.Errorf("save the data of pod %s and {final} end it, and see that node %s no longer reports the disk in use", PodName(users[0]), va.Spec.NodeName)
	case node == nil:
		return errors.New(finding.MachineOff(va.Spec.NodeName))
	case !reconcile.NodeReady(node):
		return errors.New(finding.MachineOff(va.Spec.NodeName) + ", or bring the node back")
	case slices.ContainsFunc(disks, func(disk corev1.UniqueVolumeName) bool { return p.InUse(node, disk) }):
		return fmt.Errorf("{final} end what uses the disk on node %s, and see that the node no longer reports it in use", node.Name)
	}
	return nil
}
