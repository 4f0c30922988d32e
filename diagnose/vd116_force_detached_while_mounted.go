package diagnose

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var forceDetachedWhileMounted = Check{
	Code:     "VD116",
	Name:     "force-detached-while-mounted",
	Title:    "A node still has a volume in use that counts as detached from it",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runForceDetachedWhileMounted,
}

// cleanUpTakes is how long a node that is back may take to unmount what its
// pods, which were removed meanwhile, have left: one failed unmount and its
// longest back-off, 2 min each, and some margin.
const cleanUpTakes = 5 * time.Minute

func runForceDetachedWhileMounted(p *Pass) {
	for _, node := range p.Snapshot.Nodes {
		if !reconcile.NodeReady(node) || !p.World.Managed.Has(nodeName(node)) || p.taintMisused(node) {
			continue // oos-taint-misuse says more
		}
		if p.Age(readyCondition(node).LastTransitionTime) < cleanUpTakes || !p.statusSettled(node) {
			continue
		}
		unlisted := slices.DeleteFunc(slices.Clone(node.Status.VolumesInUse), func(volume corev1.UniqueVolumeName) bool { return lists(node, volume) })
		slices.Sort(unlisted)
		for _, volume := range slices.Compact(unlisted) {
			if p.detachedUnder(node, volume) {
				p.detachedWhileMounted(node, volume)
			}
		}
	}
}

// statusSettled says that the kubelet has not written its node's status for a
// minute. It does so within 10 s of a change of volumesInUse, so that the list
// then still holds what the kubelet means.
func (p *Pass) statusSettled(node *corev1.Node) bool {
	c := readyCondition(node)
	if c == nil || c.LastHeartbeatTime.IsZero() || p.Age(c.LastHeartbeatTime) < listsSettle {
		return false
	}
	_, written := volumesAttachedWriter(node)
	return written.IsZero() || p.Age(written) >= listsSettle
}

// detachedUnder says that the kubelet has the volume in use without a user,
// while neither the controller nor any VolumeAttachment knows it there. A
// detach takes it off volumesInUse first, an attach has a pod that wants it.
func (p *Pass) detachedUnder(node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	pair := reconcile.VolumeNode{Volume: volume, Node: nodeName(node)}
	driver, _, ok := reconcile.ParseCSI(volume)
	if !ok || !p.attachRequired(driver) || lists(node, volume) || p.Snapshot.VolumeAttachment(attachmentName(pair)) != nil ||
		len(p.World.Attachments(pair)) > 0 || p.World.Desired[pair] != nil || len(p.World.LivePods(pair)) > 0 {
		return false
	}
	// An attachment whose volume cannot be told may be this one.
	if slices.ContainsFunc(p.attachmentsOn(pair.Node), func(va *storagev1.VolumeAttachment) bool {
		if va.Spec.Attacher != driver {
			return false
		}
		_, err := p.World.AttachmentVolume(va)
		return err != nil
	}) {
		return false
	}
	// A pod that ended before its volume was mounted keeps it in the list until
	// the pod is deleted: nothing is mounted for it.
	return !slices.ContainsFunc(p.Snapshot.PodsOnNode(pair.Node), func(pod *corev1.Pod) bool { return p.mounts(pod, volume) && (!started(pod) || neverRan(pod)) })
}

func (p *Pass) detachedWhileMounted(node *corev1.Node, volume corev1.UniqueVolumeName) {
	pv := p.shortVolume(volume)
	f := Finding{
		Subject:          Object{Kind: "Node", Name: node.Name, UID: node.UID},
		Volume:           volume,
		Node:             nodeName(node),
		PersistentVolume: pv,
		Message:          fmt.Sprintf("Node %s still reports volume %s in use, which no pod uses there and which counts as detached from it", node.Name, pv),
		Cause: "the volume was detached by force while the node was not Ready, under the out-of-service taint, or by the deletion of its " +
			"VolumeAttachment; the node lived and kept its mount",
		Evidence: []Evidence{
			{"node/" + node.Name, "status.volumesInUse", string(volume)},
			{"node/" + node.Name, "status.volumesAttached", "lacks it; lists " + attachedList(node.Status.VolumesAttached)},
			{"volumeattachment/" + attachmentName(reconcile.VolumeNode{Volume: volume, Node: nodeName(node)}), "metadata.name", "there is no such object"},
			{"node/" + node.Name, "status.conditions[Ready]", readyText(node)},
		},
		SelfHeals: SelfHeals{Because: "the kubelet cannot unmount a device that was taken away; a restart of the machine clears it"},
		Advice: fmt.Sprintf("keep pods away from the node and restart the machine: kubectl cordon %s. A pod that returns there first would use the stale "+
			"mount, and what the old one had not written is lost or written too late: check the file system", node.Name),
	}
	if va := p.attachedElsewhere(f.Pair()); va != nil && p.oneNode(volume) {
		f.Severity, f.VolumeAttachment = Error, va.Name
		f.Message += fmt.Sprintf("; it is now attached to node %s", va.Node)
		f.Evidence = append(f.Evidence, Evidence{va.object(), "status.attached", "true on node " + string(va.Node)})
		f.Pods = podNames(p.World.LivePods(va.VolumeNode))
	}
	p.Report(f)
}
