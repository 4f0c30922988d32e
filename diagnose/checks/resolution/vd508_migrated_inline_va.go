package resolution

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var MigratedInlineVA = check.Check{
	Code:        "VD508",
	Name:        "migrated-inline-va",
	Title:       "The attachment of a volume that stood in a pod itself stays, and no controller will find it",
	Severity:    finding.Warning,
	Breaks:      check.Holds,
	Needs:       check.AttachmentKinds(snapshot.CSINodes),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "take its finalizer off: the storage then keeps the volume attached",
	Run:         runMigratedInlineVA,
}

func runMigratedInlineVA(p *check.Run) {
	for _, va := range p.Snapshot.VolumeAttachments {
		inline := va.Spec.Source.InlineVolumeSpec
		if inline == nil || inline.CSI == nil || va.Spec.Source.PersistentVolumeName != nil ||
			!facts.Holds(va) || p.Age(va.CreationTimestamp) < facts.DanglingGrace {
			continue
		}
		name := reconcile.CSIVolumeName(inline.CSI.Driver, inline.CSI.VolumeHandle)
		pair := reconcile.VolumeNode{Volume: name, Node: types.NodeName(va.Spec.NodeName)}
		node := p.Snapshot.Node(pair.Node)
		if va.Name != facts.AttachmentName(pair) || !reconcile.NodeReady(node) || !p.World.Managed.Has(pair.Node) ||
			!p.Forgotten(pair) || mayUseInline(p.View, pair.Node) || listJustWritten(p.View, node) {
			continue
		}
		inlineLeft(p, va, pair, node)
	}
}

// mayUseInline reports whether a pod on the node has an inline in-tree volume that could not be
// translated, and so may be any.
func mayUseInline(p *facts.View, node types.NodeName) bool {
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

// listJustWritten reports whether the controller has just attached or detached something on the
// node: the lists may be of the moment in between.
func listJustWritten(p *facts.View, node *corev1.Node) bool {
	_, at := facts.VolumesAttachedWriter(node)
	return !at.IsZero() && p.Age(at) < facts.ListsGrace
}

func inlineLeft(p *check.Run, va *storagev1.VolumeAttachment, pair reconcile.VolumeNode, node *corev1.Node) {
	f := finding.Finding{
		Subject:          facts.VaObject(va),
		Volume:           pair.Volume,
		Node:             pair.Node,
		VolumeAttachment: va.Name,
		Since:            &va.CreationTimestamp,
		Message:          fmt.Sprintf("Inline volume %s is still attached to node %s, and its pod is gone", va.Spec.Source.InlineVolumeSpec.CSI.VolumeHandle, pair.Node),
		Detail:           "the pod that carried the volume in itself is gone, and the controller will not detach it",
		Cause: "the pod went away while kube-controller-manager was down or changed its leader; a controller that starts takes up only attachments that name a " +
			"persistent volume",
		Evidence: []finding.Evidence{
			{Object: "volumeattachment/" + va.Name, Field: "spec.source.inlineVolumeSpec", Value: "is set, and no persistentVolumeName"},
			{Object: "volumeattachment/" + va.Name, Field: "status.attached", Value: "true, not being deleted"},
			{Object: "node/" + node.Name, Field: "status.volumesInUse", Value: "lacks it; lists " + facts.List(node.Status.VolumesInUse)},
			{Object: "node/" + node.Name, Field: "status.volumesAttached", Value: "lacks it; lists " + facts.AttachedList(node.Status.VolumesAttached)},
		},
		SelfHeals: finding.SelfHeals{Because: "a restart of kube-controller-manager does not help; kube-controller-manager passes over attachments of inline volumes"},
		ByHand:    fmt.Sprintf("{check} make sure on node %s that nothing has the volume mounted, then {final} delete the VolumeAttachment", pair.Node),
	}
	if waiters := p.WaitingElsewhere(pair); len(waiters) > 0 {
		f.Severity, f.Pods = finding.Error, facts.PodNames(waiters)
		facts.Also(&f, "pod %s waits for it on node %s", facts.PodName(waiters[0]), waiters[0].Spec.NodeName)
	}
	p.Report(f)
}
