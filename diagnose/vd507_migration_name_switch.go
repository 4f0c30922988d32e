package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var migrationNameSwitch = Check{
	Code:     "VD507",
	Name:     "migration-name-switch",
	Title:    "A node lists one disk under its in-tree name and under its CSI name",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes,
	},
	Run: runMigrationNameSwitch,
}

func runMigrationNameSwitch(p *Pass) {
	inTree := func(name corev1.UniqueVolumeName) bool {
		_, _, ok := inTreeName(name)
		return ok
	}
	for _, node := range p.Snapshot.Nodes {
		if !slices.ContainsFunc(node.Status.VolumesInUse, inTree) &&
			!slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return inTree(v.Name) }) {
			continue // as all are where nothing has moved
		}
		names := slices.Clone(node.Status.VolumesInUse)
		for _, v := range node.Status.VolumesAttached {
			names = append(names, v.Name)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		for _, name := range names {
			i := slices.IndexFunc(names, func(other corev1.UniqueVolumeName) bool { return oneDisk(name, other) })
			// Where no plugin serves the old name any more nobody detaches by it:
			// that is a leftover, migration-config-mismatch.
			if i >= 0 && !p.noPlugin(reconcile.VolumeNode{Volume: name, Node: nodeName(node)}) {
				p.nameSwitch(node, name, names[i])
			}
		}
	}
}

// noPlugin says that the controller has no plugin for a volume that it is to
// detach.
func (p *Pass) noPlugin(pair reconcile.VolumeNode) bool {
	d := p.Plan.Decision(pair)
	return d != nil && d.Verb == reconcile.Blocked && d.Reason == reconcile.NoPlugin
}

func (p *Pass) nameSwitch(node *corev1.Node, inTree, csi corev1.UniqueVolumeName) {
	pair := reconcile.VolumeNode{Volume: csi, Node: nodeName(node)}
	f := Finding{
		Subject:          Object{Kind: "Node", Name: node.Name, UID: node.UID},
		Volume:           csi,
		Node:             pair.Node,
		PersistentVolume: p.shortVolume(csi),
		Message: fmt.Sprintf("Node %s lists the disk of volume %s as %s and as %s: to detach the one takes the disk from the other",
			node.Name, p.shortVolume(csi), inTree, csi),
		Cause: "the node's kubelet was upgraded to one that leaves the disk to the CSI driver while pods used it; to the controller these are two volumes, " +
			"of which nobody wants the first",
		Evidence: []Evidence{nameEvidence(node, inTree), nameEvidence(node, csi)},
		SelfHeals: SelfHeals{Because: "the controller detaches by the old name and then attaches by the new one; a pod that uses the disk meanwhile gets " +
			"input and output errors, and keeps them until it is restarted"},
		Advice: fmt.Sprintf("drain node %s now, so that nothing writes while the names change, and let it settle until only the CSI name is left; drain the "+
			"other nodes before their kubelet is upgraded. Delete no VolumeAttachment", node.Name),
	}
	if va := p.Snapshot.VolumeAttachment(attachmentName(pair)); va != nil {
		f.VolumeAttachment = va.Name
	}
	users := p.World.LivePods(pair)
	for _, pod := range p.World.LivePods(reconcile.VolumeNode{Volume: inTree, Node: pair.Node}) {
		if !slices.Contains(users, pod) {
			users = append(users, pod)
		}
	}
	if f.Pods = podNames(users); len(users) == 0 {
		f.Severity = Warning
	} else {
		f.Message += fmt.Sprintf(", which pod %s uses", f.Pods[0])
	}
	p.Report(f)
}

func nameEvidence(node *corev1.Node, name corev1.UniqueVolumeName) Evidence {
	object := "node/" + node.Name
	switch {
	case inUse(node, name) && lists(node, name):
		return Evidence{object, "status.volumesInUse, status.volumesAttached", string(name)}
	case inUse(node, name):
		return Evidence{object, "status.volumesInUse", string(name)}
	default:
		return Evidence{object, "status.volumesAttached", string(name)}
	}
}
