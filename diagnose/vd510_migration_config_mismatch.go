package diagnose

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var migrationConfigMismatch = Check{
	Code:     "VD510",
	Name:     "migration-config-mismatch",
	Title:    "The controller has no plugin, or no usable name, for a volume that it is to attach or detach",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes,
	},
	Run: runMigrationConfigMismatch,
}

func runMigrationConfigMismatch(p *Pass) {
	known := p.releaseKnown()
	for _, node := range p.Snapshot.Nodes {
		if known {
			p.notMigratedNode(node)
			p.leftovers(node)
		}
	}
	p.undetachable()
}

// leftovers are entries that an in-tree plugin made which the controller no
// longer has. Of other plugins, as flexvolumes are, no object tells whether the
// controller has them.
func (p *Pass) leftovers(node *corev1.Node) {
	var seen []corev1.UniqueVolumeName
	for _, v := range node.Status.VolumesAttached {
		plugin, _, ok := inTreeName(v.Name)
		pair := reconcile.VolumeNode{Volume: v.Name, Node: nodeName(node)}
		if !ok || !p.noPlugin(pair) || inUse(node, v.Name) || slices.Contains(seen, v.Name) {
			continue
		}
		seen = append(seen, v.Name)
		p.Report(Finding{
			Subject: Object{Kind: "Node", Name: node.Name, UID: node.UID},
			Volume:  v.Name,
			Node:    pair.Node,
			Message: fmt.Sprintf("Node %s lists volume %s as attached, by the name of an in-tree plugin that this release no longer has: the controller can "+
				"never detach it by that name", node.Name, v.Name),
			Cause: "the cluster was upgraded past the removal of " + plugin + " while the volume was attached; the entry was left behind",
			Evidence: []Evidence{
				{"node/" + node.Name, "status.volumesAttached", string(v.Name)},
				{"node/" + node.Name, "status.volumesInUse", "lacks it; lists " + list(node.Status.VolumesInUse)},
				{"cluster", "serverVersion", p.Snapshot.Source.ServerVersion},
			},
			SelfHeals: SelfHeals{Because: "the controller takes the entry off, finds no plugin and puts it back, over and over and without a pause; that uses up " +
				"its calls to the API server, from which all attaching suffers"},
			Advice: fmt.Sprintf("drain node %s and replace it; or see at the provider that the disk is not attached there, then delete the Node object of a node "+
				"that is off. An edit of the list alone is undone until kube-controller-manager starts anew", node.Name),
		})
	}
}

// notMigratedNode tells of a node on which the move to CSI is not in force,
// while it is on others, and of pods there whose volumes nobody attaches for
// that. Up to 1.30 the controller asked each node.
func (p *Pass) notMigratedNode(node *corev1.Node) {
	csiNode := p.Snapshot.CSINode(nodeName(node))
	if !p.World.Behaviours.Has(reconcile.MigrationAsksNode) || csiNode == nil || !p.World.Managed.Has(nodeName(node)) || virtual(node) ||
		!reconcile.NodeReady(node) || p.Age(readyCondition(node).LastTransitionTime) < registrationSettles {
		return
	}
	var waiting []podVolume
	plugin := ""
	pods := p.pendingOn(nodeName(node))
	longestFirst(pods)
	for _, pod := range pods {
		if reconcile.PodTerminated(pod) || p.Age(boundAt(pod)) < registrationSettles {
			continue
		}
		for i := range pod.Spec.Volumes {
			v := &pod.Spec.Volumes[i]
			claim := p.Snapshot.Claim(claimKey(pod, reconcile.ClaimName(pod, v)))
			if _, _, err := p.World.PodVolume(pod, v); err == nil || claim == nil || claim.Status.Phase != corev1.ClaimBound {
				continue
			}
			pv := p.Snapshot.Volume(claim.Spec.VolumeName)
			if pv == nil || pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID {
				continue
			}
			if in := inTreePlugin(pv); migratedTo[in] != "" && !hasMigrated(csiNode, in) && p.migratedElsewhere(in) && (plugin == "" || plugin == in) {
				plugin = in
				waiting = append(waiting, podVolume{pod, "", pv.Name})
			}
		}
	}
	if len(waiting) > 0 {
		p.notMigrated(node, csiNode, plugin, waiting)
	}
}

func hasMigrated(csiNode *storagev1.CSINode, plugin string) bool {
	return slices.Contains(strings.Split(csiNode.Annotations[corev1.MigratedPluginsAnnotationKey], ","), plugin)
}

func (p *Pass) migratedElsewhere(plugin string) bool {
	return p.remember().migrated.get(plugin, func(plugin string) bool {
		return slices.ContainsFunc(p.Snapshot.CSINodes, func(n *storagev1.CSINode) bool { return hasMigrated(n, plugin) })
	})
}

func (p *Pass) notMigrated(node *corev1.Node, csiNode *storagev1.CSINode, plugin string, waiting []podVolume) {
	first := waiting[0]
	since := boundAt(first.pod)
	var pods []*corev1.Pod
	for _, w := range waiting {
		if !slices.Contains(pods, w.pod) {
			pods = append(pods, w.pod)
		}
	}
	p.Report(Finding{
		Severity: Error,
		Subject:  Object{Kind: "CSINode", Name: csiNode.Name, UID: csiNode.UID},
		Node:     nodeName(node),
		Since:    &since,
		Pods:     podNames(pods),
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, which nobody attaches: the node does not say that %s has moved to CSI there, as others do, "+
			"and the controller no longer has the in-tree plugin%s", podName(first.pod), node.Name, first.name, plugin, alike(pods)),
		Cause: "the kubelet of the node has the migration turned off, by a feature gate or its age, and the controller has not",
		Evidence: []Evidence{{"csinode/" + csiNode.Name, "metadata.annotations[" + corev1.MigratedPluginsAnnotationKey + "]",
			fmt.Sprintf("lacks %s; lists %q", plugin, csiNode.Annotations[corev1.MigratedPluginsAnnotationKey])}},
		SelfHeals: SelfHeals{Because: "the kubelet writes the annotation when it starts, by its feature gates"},
		Advice: fmt.Sprintf("drain node %s, bring its kubelet's release and feature gates in line with the controller's, and restart it; do not write the "+
			"annotation by hand, or the kubelet mounts in one way what is attached in another", node.Name),
	})
}

// madeFromHandle says that the attachment has the name that the controller gives
// when it attaches, which it can do whatever the handle.
func (p *Pass) madeFromHandle(va attachment) bool {
	pv := p.World.Volume(va.Volume)
	return pv != nil && pv.Spec.CSI != nil && va.Name == reconcile.VolumeAttachmentName(pv.Spec.CSI.VolumeHandle, pv.Spec.CSI.Driver, va.Node)
}

// undetachable tells of attachments that the controller made from the handle and
// cannot find again by its name for the volume, in which "^" parts the two.
func (p *Pass) undetachable() {
	waiting := p.waiting()
	for _, va := range p.attachments() {
		if _, _, ok := reconcile.ParseCSI(va.Volume); ok || !va.holds() || !p.madeFromHandle(va) || p.Age(va.CreationTimestamp) < danglingSettles {
			continue
		}
		pv := p.shortVolume(va.Volume)
		f := Finding{
			Subject:          Object{Kind: "VolumeAttachment", Name: va.Name, UID: va.UID},
			Volume:           va.Volume,
			Node:             va.Node,
			PersistentVolume: pv,
			VolumeAttachment: va.Name,
			Since:            &va.CreationTimestamp,
			Message:          fmt.Sprintf("Volume %s is attached to node %s and can never be detached by the controller: its handle contains a ^", pv, va.Node),
			Cause:            "the controller puts driver and handle together with a ^ and takes them apart there; with another one in the handle that fails",
			Evidence: []Evidence{
				{"volumeattachment/" + va.Name, "status.attached", "true, not being deleted"},
				{"persistentvolume/" + pv, "spec.csi.volumeHandle", string(va.Volume)},
			},
			SelfHeals: SelfHeals{Because: "each attempt to detach fails on the name alone, in every release"},
			Advice: fmt.Sprintf("once no pod on node %s uses the volume and it has left the node's volumesInUse, delete the VolumeAttachment and leave its finalizer "+
				"alone: the attacher detaches by the volume's own handle. For good, make the volume anew with a handle without ^", va.Node),
		}
		if waiters := elsewhere(waiting[va.Volume], va.Node); len(waiters) > 0 && p.oneNode(va.Volume) && len(p.World.LivePods(va.VolumeNode)) == 0 {
			f.Severity, f.Pods = Error, podNames(waiters)
			f.Message += fmt.Sprintf("; pod %s waits for it on node %s", podName(waiters[0]), waiters[0].Spec.NodeName)
		}
		p.Report(f)
	}
}
