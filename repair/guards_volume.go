package repair

import (
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// Guards about the finding's volume and node that several kinds of repair share.

// checkAttacherAtWork: without an attacher the write has no effect. An attacher may run
// without a lease, or outside the cluster; a lease that exists must be fresh.
func checkAttacherAtWork(v *View, r *Repair) error {
	driver, _, _ := csiOf(v, r.Finding)
	return attacherAtWork(v, driver)
}

func attacherAtWork(v *View, driver string) error {
	lease := v.Facts.AttacherLease(driver)
	switch {
	case lease == nil && !v.Facts.Installed(driver):
		return fmt.Errorf("driver %s is not installed: it has no CSIDriver, no node has it, and no lease shows an external-attacher", driver)
	case lease == nil:
		return nil
	}
	if age := v.Facts.Age(facts.Renewed(lease)); age > facts.AttacherLeaseGrace {
		return fmt.Errorf("nobody has renewed lease %s/%s for %v: no external-attacher of driver %s is at work", lease.Namespace, lease.Name, age.Round(time.Second), driver)
	}
	return nil
}

// checkNoneOfPair: the deletion of a second VolumeAttachment for the same volume and node
// would detach the volume of the first one.
func checkNoneOfPair(v *View, r *Repair) error { return noneOn(v, r, r.Finding.Node) }

func noneOn(v *View, r *Repair, node types.NodeName) error {
	there := func(va *storagev1.VolumeAttachment) bool { return va.Spec.NodeName == string(node) }
	if va := attachmentFor(v, r, there); va != nil {
		return fmt.Errorf("VolumeAttachment %s is for the same volume and node", va.Name)
	}
	return nil
}

// checkNotUsedThere: no pod on the finding's node may use the volume, through whatever claim,
// and its kubelet must not report the volume in use.
func checkNotUsedThere(v *View, r *Repair) error { return notUsedOn(v, r, r.Finding.Node) }

func notUsedOn(v *View, r *Repair, name types.NodeName) error {
	pair := reconcile.VolumeNode{Volume: r.Finding.Volume, Node: name}
	for _, pod := range v.World.LivePods(pair) {
		return fmt.Errorf("pod %s/%s on node %s uses the volume", pod.Namespace, pod.Name, name)
	}
	if v.World.Desired.Find(pair) != nil {
		return fmt.Errorf("the controller wants the volume on node %s", name)
	}
	if node := v.Snapshot.Node(name); node != nil && v.Facts.InUse(node, r.Finding.Volume) {
		return fmt.Errorf("the kubelet of node %s reports the volume in use", name)
	}
	return nil
}

// checkOnlyWaiting: no container on the node may have started to use the volume.
func checkOnlyWaiting(v *View, r *Repair) error {
	pods := v.World.LivePods(r.Finding.Pair())
	for _, pod := range pods {
		if facts.MayUseVolumes(pod) {
			return fmt.Errorf("pod %s/%s on node %s uses the volume", pod.Namespace, pod.Name, r.Finding.Node)
		}
	}
	if len(pods) == 0 {
		return fmt.Errorf("no pod on node %s waits for the volume", r.Finding.Node)
	}
	return nil
}

// checkDisksStay: where a claim is being deleted, only the pods that name it keep the disk.
// Whoever deleted the claim asked for that, but may not be aware of it.
func checkDisksStay(v *View, r *Repair) error {
	pods := v.Snapshot.PodsOnNode(r.Finding.Node)
	if r.Kind == CyclePod {
		pods = slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return pod.UID != r.Do.Target.UID })
	}
	for _, pv := range v.Facts.DisksThatGo(pods) {
		return fmt.Errorf("volume %s has the reclaim policy Delete, and its claim is being deleted: with the last pod that names it its disk is deleted with all data", pv.Name)
	}
	return nil
}

// checkVolumeKnown: a VolumeAttachment that is created or deleted names a persistent volume,
// and the attacher takes the driver and the handle from that.
func checkVolumeKnown(v *View, r *Repair) error {
	driver, handle, ok := csiOf(v, r.Finding)
	if !ok {
		return fmt.Errorf("%s is not a CSI volume", r.Finding.Volume)
	}
	pvs := v.World.Volumes(r.Finding.Volume)
	switch {
	case len(pvs) == 0:
		return fmt.Errorf("no persistent volume that is attached, of driver %s, has the handle %s", driver, handle)
	case len(pvs) > 1:
		return fmt.Errorf("%d persistent volumes of driver %s have the handle %s", len(pvs), driver, handle)
	case pvs[0].DeletionTimestamp != nil:
		return fmt.Errorf("persistent volume %s is being deleted", pvs[0].Name)
	}
	return nil
}

// newAttachment is the object that the controller would create for the volume
// on the node (csi_attacher.go, Attach).
func newAttachment(v *View, f finding.Finding, node types.NodeName, kind Kind) (*storagev1.VolumeAttachment, error) {
	driver, handle, ok := csiOf(v, f)
	pvs := v.World.Volumes(f.Volume)
	if !ok || len(pvs) == 0 {
		return nil, errors.New("the volume's persistent volume is not there")
	}
	va := &storagev1.VolumeAttachment{}
	va.APIVersion, va.Kind = storagev1.SchemeGroupVersion.String(), "VolumeAttachment"
	va.Name = reconcile.VolumeAttachmentName(handle, driver, node)
	va.Annotations = map[string]string{MarkAnnotation: markOf(kind, f.Code, f.Check)}
	va.Spec = storagev1.VolumeAttachmentSpec{
		Attacher: driver, NodeName: string(node),
		Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pvs[0].Name},
	}
	return va, nil
}
