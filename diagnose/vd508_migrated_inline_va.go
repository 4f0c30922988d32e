package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var migratedInlineVA = Check{
	Code:     "VD508",
	Name:     "migrated-inline-va",
	Title:    "The attachment of a volume that stood in a pod itself stays, and no controller will find it",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes,
	},
	Run: runMigratedInlineVA,
}

func runMigratedInlineVA(p *Pass) {
	for _, va := range p.Snapshot.VolumeAttachments {
		inline := va.Spec.Source.InlineVolumeSpec
		if inline == nil || inline.CSI == nil || va.Spec.Source.PersistentVolumeName != nil ||
			!holds(va) || p.Age(va.CreationTimestamp) < danglingSettles {
			continue
		}
		name := corev1.UniqueVolumeName("kubernetes.io/csi/" + inline.CSI.Driver + "^" + inline.CSI.VolumeHandle)
		pair := reconcile.VolumeNode{Volume: name, Node: types.NodeName(va.Spec.NodeName)}
		node := p.Snapshot.Node(pair.Node)
		if va.Name != attachmentName(pair) || !reconcile.NodeReady(node) || !p.World.Managed.Has(pair.Node) ||
			!p.forgotten(pair) || p.mayUseInline(pair.Node) || p.listJustWritten(node) {
			continue
		}
		p.inlineLeft(va, pair, node)
	}
}

// mayUseInline says that a pod on the node has an in-tree volume of its own that
// could not be translated, and so may be any.
func (p *Pass) mayUseInline(node types.NodeName) bool {
	for _, pod := range p.Snapshot.PodsOnNode(node) {
		if reconcile.PodTerminated(pod) {
			continue
		}
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			if _, _, err := p.World.PodVolume(pod, v); err != nil &&
				(v.AWSElasticBlockStore != nil || v.GCEPersistentDisk != nil || v.AzureDisk != nil || v.Cinder != nil || v.VsphereVolume != nil ||
					v.AzureFile != nil || v.PortworxVolume != nil) {
				return true
			}
		}
	}
	return false
}

// listJustWritten says that the controller has just attached or detached
// something on the node: the lists may show the moment in between.
func (p *Pass) listJustWritten(node *corev1.Node) bool {
	_, at := volumesAttachedWriter(node)
	return !at.IsZero() && p.Age(at) < listsSettle
}

func (p *Pass) inlineLeft(va *storagev1.VolumeAttachment, pair reconcile.VolumeNode, node *corev1.Node) {
	f := Finding{
		Subject:          Object{Kind: "VolumeAttachment", Name: va.Name, UID: va.UID},
		Volume:           pair.Volume,
		Node:             pair.Node,
		VolumeAttachment: va.Name,
		Since:            &va.CreationTimestamp,
		Message: fmt.Sprintf("The attachment of volume %s to node %s is left over: the pod that carried the volume in itself is gone, and the controller "+
			"will not detach it", va.Spec.Source.InlineVolumeSpec.CSI.VolumeHandle, pair.Node),
		Cause: "the pod went away while kube-controller-manager was down or changed its leader; a controller that starts takes up only attachments that name a " +
			"persistent volume",
		Evidence: []Evidence{
			{"volumeattachment/" + va.Name, "spec.source.inlineVolumeSpec", "is set, and no persistentVolumeName"},
			{"volumeattachment/" + va.Name, "status.attached", "true, not being deleted"},
			{"node/" + node.Name, "status.volumesInUse", "lacks it; lists " + list(node.Status.VolumesInUse)},
			{"node/" + node.Name, "status.volumesAttached", "lacks it; lists " + attachedList(node.Status.VolumesAttached)},
		},
		SelfHeals: SelfHeals{Because: "a restart of kube-controller-manager does not help: it passes over attachments of inline volumes"},
		Advice: fmt.Sprintf("make sure on node %s that nothing has the volume mounted, then delete the VolumeAttachment and leave its finalizer alone: "+
			"the driver then detaches the volume", pair.Node),
	}
	if waiters := elsewhere(p.waiting()[pair.Volume], pair.Node); len(waiters) > 0 {
		f.Severity, f.Pods = Error, podNames(waiters)
		f.Message += fmt.Sprintf(", while pod %s waits for it on node %s", podName(waiters[0]), waiters[0].Spec.NodeName)
	}
	p.Report(f)
}
