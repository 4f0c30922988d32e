package resolution

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var MigrationConfigMismatch = check.Check{
	Code:        "VD510",
	Name:        "migration-config-mismatch",
	Title:       "The controller has no plugin, or no usable name, for a volume that it is to attach or detach",
	Severity:    finding.Warning,
	Needs:       check.AttachmentKinds(snapshot.CSINodes),
	OfNamespace: true,
	OfDriver:    true,
	Run:         runMigrationConfigMismatch,
}

func runMigrationConfigMismatch(p *check.Run) {
	known := releaseKnown(p.View)
	for _, node := range p.Snapshot.Nodes {
		if known {
			notMigratedNode(p, node)
			leftovers(p, node)
		}
	}
	undetachable(p)
}

// leftovers are entries of an in-tree plugin that the controller no longer has. No object shows
// whether the controller has other plugins, such as flexvolumes.
func leftovers(p *check.Run, node *corev1.Node) {
	var seen []corev1.UniqueVolumeName
	for _, v := range node.Status.VolumesAttached {
		plugin, _, ok := facts.InTreeName(v.Name)
		pair := reconcile.VolumeNode{Volume: v.Name, Node: facts.NodeName(node)}
		if !ok || !p.NoPlugin(pair) || p.InUse(node, v.Name) || slices.Contains(seen, v.Name) {
			continue
		}
		seen = append(seen, v.Name)
		p.Report(facts.AboutNode(node, finding.Finding{
			Volume:  v.Name,
			Message: fmt.Sprintf("Node %s lists volume %s by a name of an in-tree plugin", node.Name, v.Name),
			Detail:  "it lists it as attached; this release no longer has that plugin, and the controller can never detach the volume by that name",
			Cause:   "the cluster was upgraded past the removal of " + plugin + " while the volume was attached; the entry was left behind",
			Evidence: []finding.Evidence{
				{Object: "node/" + node.Name, Field: "status.volumesAttached", Value: string(v.Name)},
				{Object: "node/" + node.Name, Field: "status.volumesInUse", Value: "lacks it; lists " + facts.List(node.Status.VolumesInUse)},
				{Object: "cluster", Field: "serverVersion", Value: p.Snapshot.Source.ServerVersion},
			},
			SelfHeals: finding.SelfHeals{Because: "the controller takes the entry off and puts it back; the controller finds no plugin, and goes on without a pause; that uses up " +
				"its calls to the API server, from which all attaching suffers"},
			Advice: fmt.Sprintf("{drain-node %s} and {final} replace it; or, if the machine is off and the provider says that the disk is not attached there, {delete-node %s}", node.Name, node.Name),
			Never:  "edit the list alone: the controller writes the entry back until it restarts",
		}))
	}
}

// notMigratedNode reports a node on which the migration to CSI is off while it is on elsewhere,
// and whose pods' volumes are therefore not attached. Up to 1.30 the controller asked each node.
func notMigratedNode(p *check.Run, node *corev1.Node) {
	csiNode := p.Snapshot.CSINode(facts.NodeName(node))
	if !p.World.Behaviours.Has(reconcile.MigrationAsksNode) || csiNode == nil || !p.World.Managed.Has(facts.NodeName(node)) || facts.TakesNoPlugin(node) ||
		!reconcile.NodeReady(node) || p.Age(facts.ReadyCondition(node).LastTransitionTime) < facts.RegistrationGrace {
		return
	}
	var waiting []facts.PodVolume
	plugin := ""
	for _, pod := range p.PendingOn(facts.NodeName(node)) {
		if reconcile.PodTerminated(pod) || !p.Lasted(facts.BoundAt(pod), facts.RegistrationGrace) {
			continue
		}
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			pv := p.BoundVolume(pod, v)
			if _, _, err := p.World.PodVolume(pod, v); err == nil || pv == nil {
				continue
			}
			if in := facts.InTreePlugin(pv); facts.MigratedTo[in] != "" && !hasMigrated(csiNode, in) && migratedElsewhere(p.View, in) && (plugin == "" || plugin == in) {
				plugin = in
				waiting = append(waiting, facts.PodVolume{Pod: pod, Volume: "", Name: pv.Name})
			}
		}
	}
	if len(waiting) > 0 {
		notMigrated(p, node, csiNode, plugin, waiting)
	}
}

func notMigrated(p *check.Run, node *corev1.Node, csiNode *storagev1.CSINode, plugin string, waiting []facts.PodVolume) {
	first, pods := waiting[0], facts.PodsOf(waiting)
	p.Report(finding.Finding{
		Severity: finding.Error,
		Subject:  finding.Object{Kind: "CSINode", Name: csiNode.Name, UID: csiNode.UID},
		Node:     facts.NodeName(node),
		Since:    new(facts.BoundAt(first.Pod)),
		Pods:     facts.PodNames(pods),
		Message:  fmt.Sprintf("Pod %s waits on node %s: nobody attaches volume %s there", facts.PodName(first.Pod), node.Name, first.Name),
		Detail: finding.Clauses(fmt.Sprintf("the node does not say that %s has moved to CSI there, as others do, and the controller no longer has the in-tree plugin",
			plugin), facts.Alike(pods)),
		Cause: "the kubelet of the node has the migration turned off, by a feature gate or its age, and the controller has not",
		Evidence: []finding.Evidence{{Object: "csinode/" + csiNode.Name, Field: "metadata.annotations[" + corev1.MigratedPluginsAnnotationKey + "]",
			Value: fmt.Sprintf("lacks %s; lists %q", plugin, csiNode.Annotations[corev1.MigratedPluginsAnnotationKey])}},
		SelfHeals: finding.SelfHeals{Because: "the kubelet writes the annotation only when it starts; the kubelet goes by its feature gates"},
		Advice:    fmt.Sprintf("{drain-node %s}; {change} bring its kubelet's release and feature gates in line with the controller's; {restart-kubelet %s}", node.Name, node.Name),
		Never:     "write the annotation by hand: the kubelet would mount in one way what is attached in another",
	})
}

// madeFromHandle reports whether the attachment has the name that the controller gives when it
// attaches, whatever the handle.
func madeFromHandle(p *facts.View, va facts.Attachment) bool {
	pv := p.World.Volume(va.Volume)
	return pv != nil && pv.Spec.CSI != nil && va.Name == reconcile.VolumeAttachmentName(pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.Driver, va.Node)
}

// undetachable reports attachments that the controller made from the handle and cannot find by
// the volume's name, in which "^" separates driver and handle.
func undetachable(p *check.Run) {
	for _, va := range p.Attachments() {
		if _, _, ok := reconcile.ParseCSI(va.Volume); ok || !va.Holds() || !madeFromHandle(p.View, va) || p.Age(va.CreationTimestamp) < facts.DanglingGrace {
			continue
		}
		pv := p.ShortVolumeOf(va)
		f := p.About(va, finding.Finding{
			Since:   &va.CreationTimestamp,
			Message: fmt.Sprintf("Volume %s can never be detached from node %s: its handle contains a ^", pv, va.Node),
			Detail:  "the controller cannot name such an attachment",
			Cause:   "the controller joins driver and handle with a ^ and splits the name at a ^ again; it fails on a handle that has a ^ itself",
			Evidence: []finding.Evidence{
				{Object: "volumeattachment/" + va.Name, Field: "status.attached", Value: "true, not being deleted"},
				{Object: "persistentvolume/" + pv, Field: "spec.csi.volumeHandle", Value: string(va.Volume)},
			},
			SelfHeals: finding.SelfHeals{Because: "each attempt to detach fails on the name alone; that is so in every release"},
			ByHand: fmt.Sprintf("once no pod on node %s uses the volume and it has left the node's volumesInUse, {final} delete the VolumeAttachment: the attacher detaches by "+
				"the volume's own handle", va.Node),
			Advice: "{later} {final} recreate the volume, its handle without ^",
			Never:  "take its finalizer off: the storage then keeps the volume attached",
		})
		if len(p.World.LivePods(va.VolumeNode)) == 0 {
			p.AddKeptFrom(&f)
		}
		p.Report(f)
	}
}
