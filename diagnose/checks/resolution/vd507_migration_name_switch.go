package resolution

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var MigrationNameSwitch = check.Check{
	Code:        "VD507",
	Name:        "migration-name-switch",
	Title:       "A node lists one disk under its in-tree name and under its CSI name",
	Severity:    finding.Error,
	Needs:       check.AttachmentKinds(snapshot.CSINodes),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "delete a VolumeAttachment: it takes the disk from the pod that uses it by the other name",
	Run:         runMigrationNameSwitch,
}

func runMigrationNameSwitch(p *check.Run) {
	inTree := func(name corev1.UniqueVolumeName) bool {
		_, _, ok := facts.InTreeName(name)
		return ok
	}
	for _, node := range p.Snapshot.Nodes {
		if !slices.ContainsFunc(node.Status.VolumesInUse, inTree) &&
			!slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool { return inTree(v.Name) }) {
			continue // as all are where nothing has migrated
		}
		names := slices.Clone(node.Status.VolumesInUse)
		for _, v := range node.Status.VolumesAttached {
			names = append(names, v.Name)
		}
		slices.Sort(names)
		names = slices.Compact(names)
		csi := map[string][]corev1.UniqueVolumeName{} // by diskKey
		for _, name := range names {
			if _, handle, ok := reconcile.ParseCSI(name); ok {
				csi[facts.DiskKey(handle)] = append(csi[facts.DiskKey(handle)], name)
			}
		}
		for _, name := range names {
			_, disk, ok := facts.InTreeName(name)
			if !ok {
				continue
			}
			same := csi[facts.DiskKey(disk)]
			i := slices.IndexFunc(same, func(other corev1.UniqueVolumeName) bool { return facts.OneDisk(name, other) })
			// Without a plugin for the old name nobody detaches by it: that is a leftover,
			// migration-config-mismatch.
			if i >= 0 && !p.NoPlugin(reconcile.VolumeNode{Volume: name, Node: facts.NodeName(node)}) {
				nameSwitch(p, node, name, same[i])
			}
		}
	}
}

func nameSwitch(p *check.Run, node *corev1.Node, inTree, csi corev1.UniqueVolumeName) {
	pair := reconcile.VolumeNode{Volume: csi, Node: facts.NodeName(node)}
	f := facts.AboutNode(node, finding.Finding{
		Volume:           csi,
		PersistentVolume: p.ShortVolume(csi),
		Message:          fmt.Sprintf("Node %s lists the disk of volume %s under two names", node.Name, p.ShortVolume(csi)),
		Detail:           fmt.Sprintf("it lists it as %s and as %s: to detach the one takes the disk from the other", inTree, csi),
		Cause: "the node's kubelet was upgraded to one that leaves the disk to the CSI driver while pods used it; to the controller these are two volumes, " +
			"of which nobody wants the first",
		Evidence: []finding.Evidence{nameEvidence(node, inTree), nameEvidence(node, csi)},
		SelfHeals: finding.SelfHeals{Because: "the controller detaches by the old name; the controller then attaches by the new one, and a pod that uses the disk meanwhile gets " +
			"input and output errors, and keeps them until it is restarted"},
		Advice: fmt.Sprintf("{drain-node %s} now, so that nothing writes while the names change, until only the CSI name is left; {later} {note} the other nodes "+
			"are to be drained before their kubelet is upgraded", node.Name),
	})
	if va := p.Snapshot.VolumeAttachment(facts.AttachmentName(pair)); va != nil {
		f.VolumeAttachment = va.Name
	}
	users := p.World.LivePods(pair)
	for _, pod := range p.World.LivePods(reconcile.VolumeNode{Volume: inTree, Node: pair.Node}) {
		if !slices.Contains(users, pod) {
			users = append(users, pod)
		}
	}
	if f.Pods = facts.PodNames(users); len(users) == 0 {
		f.Severity = finding.Warning
	} else {
		facts.Also(&f, "pod %s uses it", f.Pods[0])
	}
	p.Report(f)
}

func nameEvidence(node *corev1.Node, name corev1.UniqueVolumeName) finding.Evidence {
	object := "node/" + node.Name
	switch {
	case facts.InUse(node, name) && facts.Lists(node, name):
		return finding.Evidence{Object: object, Field: "status.volumesInUse, status.volumesAttached", Value: string(name)}
	case facts.InUse(node, name):
		return finding.Evidence{Object: object, Field: "status.volumesInUse", Value: string(name)}
	default:
		return finding.Evidence{Object: object, Field: "status.volumesAttached", Value: string(name)}
	}
}
