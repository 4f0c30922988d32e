package diagnose

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var attachabilityFlipped = Check{
	Code:     "VD108",
	Name:     "attachability-flipped",
	Title:    "A driver has ceased to have its volumes attached, and VolumeAttachments from before are left",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	},
	Run: runAttachabilityFlipped,
}

// flipSettles is how long the controller may take to detach what it knows of
// after a driver has ceased to need it: it looks once a minute at what is wanted,
// and one operation lasts 2 min; the rest is margin for a few of them.
const flipSettles = 10 * time.Minute

func runAttachabilityFlipped(p *Pass) {
	for _, driver := range p.Snapshot.CSIDrivers {
		// attachRequired cannot be changed: the object was made anew with it.
		if p.attachRequired(driver.Name) || p.Age(driver.CreationTimestamp) < flipSettles {
			continue
		}
		var left []*storagev1.VolumeAttachment
		for _, va := range p.Snapshot.VolumeAttachments {
			if va.Spec.Attacher == driver.Name && va.CreationTimestamp.Before(&driver.CreationTimestamp) && p.leftBehind(va) {
				left = append(left, va)
			}
		}
		if len(left) > 0 {
			p.flipped(driver, left)
		}
	}
}

// leftBehind says that the attachment was the controller's, and that nothing
// uses it: no pod, not the kubelet, and the controller does not report it.
func (p *Pass) leftBehind(va *storagev1.VolumeAttachment) bool {
	if va.Spec.Source.PersistentVolumeName == nil || va.DeletionTimestamp != nil && p.Age(*va.DeletionTimestamp) < flipSettles {
		return false
	}
	pv := p.Snapshot.Volume(*va.Spec.Source.PersistentVolumeName)
	if pv == nil || pv.Spec.CSI == nil || pv.Spec.CSI.Driver != va.Spec.Attacher {
		return false
	}
	node := types.NodeName(va.Spec.NodeName)
	if va.Name != reconcile.VolumeAttachmentName(pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.Driver, node) || p.claimedOn(node, pv) {
		return false
	}
	n, volume := p.Snapshot.Node(node), flippedVolume(pv)
	return n == nil || !inUse(n, volume) && !lists(n, volume)
}

// flippedVolume is the name that the volume has in a node's status while its
// driver has it attached.
func flippedVolume(pv *corev1.PersistentVolume) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + pv.Spec.CSI.Driver + "^" + pv.Spec.CSI.VolumeHandle)
}

// claimedOn says that a pod on the node that has not ended names a claim to the
// volume.
func (p *Pass) claimedOn(node types.NodeName, pv *corev1.PersistentVolume) bool {
	return slices.ContainsFunc(p.Snapshot.PodsOnNode(node), func(pod *corev1.Pod) bool {
		return !reconcile.PodTerminated(pod) && slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
			claim := p.Snapshot.Claim(claimKey(pod, reconcile.ClaimName(pod, &v)))
			return claim != nil && claim.Spec.VolumeName == pv.Name
		})
	})
}

// flipped makes one finding of the driver.
func (p *Pass) flipped(driver *storagev1.CSIDriver, left []*storagev1.VolumeAttachment) {
	first := left[0]
	f := Finding{
		Subject: Object{Kind: "CSIDriver", Name: driver.Name, UID: driver.UID},
		// A repair takes them one by one.
		Volume:           flippedVolume(p.Snapshot.Volume(*first.Spec.Source.PersistentVolumeName)),
		Node:             types.NodeName(first.Spec.NodeName),
		PersistentVolume: *first.Spec.Source.PersistentVolumeName,
		VolumeAttachment: first.Name,
		Since:            &driver.CreationTimestamp,
		Message: fmt.Sprintf("The volumes of driver %s are not attached any more, but a VolumeAttachment from before is left, of volume %s to node %s, and "+
			"stays", driver.Name, *first.Spec.Source.PersistentVolumeName, first.Spec.NodeName),
		Cause: "the CSIDriver object was made anew with attachRequired: false, or was missing before, while volumes of it were attached",
		Evidence: []Evidence{
			{"csidriver/" + driver.Name, "spec.attachRequired", "false"},
			{"csidriver/" + driver.Name, "metadata.creationTimestamp", stamp(driver.CreationTimestamp)},
		},
		SelfHeals: SelfHeals{Because: "the controller passes over the VolumeAttachments of a driver that attaches nothing, also when it starts anew"},
		Advice: fmt.Sprintf("find out whether the driver ever attached anything in earnest, and if so see at the storage system that nothing is. Then delete the "+
			"VolumeAttachments, such as %s: where an attacher still runs they go; where none does, only their finalizer external-attacher/%s holds them, and "+
			"may be taken off", first.Name, attacherName(driver.Name)),
	}
	if len(left) > 1 {
		f.Message += fmt.Sprintf("; %d are left in all", len(left))
	}
	const enough = 5
	for _, va := range left[:min(len(left), enough)] {
		state := fmt.Sprintf("made %s for volume %s on node %s", stamp(va.CreationTimestamp), *va.Spec.Source.PersistentVolumeName, va.Spec.NodeName)
		if va.DeletionTimestamp != nil {
			state += ", being deleted since " + stamp(*va.DeletionTimestamp)
		}
		f.Evidence = append(f.Evidence, Evidence{"volumeattachment/" + va.Name, "metadata", state})
	}
	p.Report(f)
}
