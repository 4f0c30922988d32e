package attached

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/internal/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var ForceDetachedWhileMounted = check.Check{
	Code:     "VD116",
	Name:     "force-detached-while-mounted",
	Title:    "A node still has a volume in use that counts as detached from it",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	OfDriver: true,
	Yields: []check.Yield{
		{To: "VD110", Key: nodeUnlessUsedElsewhere},
	},
	Follows: []check.Relation{
		{From: []finding.Code{"VD110"}, Share: check.OnNode, Match: check.Always},
	},
	Never: "start a pod with the volume on that node before the restart: it would use the stale mount",
	Run:   runForceDetachedWhileMounted,
}

// nodeUnlessUsedElsewhere is the node, or "" where pods on another one already use the volume:
// then more than the taint is wrong.
func nodeUnlessUsedElsewhere(p *facts.View, f finding.Finding) string {
	if f.VolumeAttachment != "" && len(f.Pods) > 0 {
		return ""
	}
	return check.OfNode(p, f)
}

// cleanUpTakes is how long a node that is back may take to unmount the volumes of pods that were
// removed meanwhile: one failed unmount, and the next.
const cleanUpTakes = facts.KubeletRetries

func runForceDetachedWhileMounted(p *check.Run) {
	for _, node := range p.Snapshot.Nodes {
		if !reconcile.NodeReady(node) || !p.World.Managed.Has(facts.NodeName(node)) {
			continue
		}
		ready := facts.ReadyCondition(node)
		if p.Age(ready.LastTransitionTime) < cleanUpTakes || ready.LastHeartbeatTime.IsZero() {
			continue
		}
		unlisted := p.UnlistedInUse(node)
		slices.Sort(unlisted)
		for _, volume := range unlisted {
			if len(p.World.Volumes(volume)) == 0 && !statusUnchanged(p.View, node) {
				continue // it may have been made after the volumes were read
			}
			if detachedUnder(p.View, node, volume) {
				detachedWhileMounted(p, node, volume)
			}
		}
	}
}

// statusUnchanged reports whether neither the kubelet nor the controller has written the node's
// lists for a minute. A kubelet writes within 10 s of a change of volumesInUse, and every five
// minutes without one.
func statusUnchanged(p *facts.View, node *corev1.Node) bool {
	_, written := facts.VolumesAttachedWriter(node)
	return p.Lasted(facts.ReadyCondition(node).LastHeartbeatTime, facts.ListsGrace) && (written.IsZero() || p.Lasted(written, facts.ListsGrace))
}

// detachedUnder reports whether the kubelet has the volume in use without a user, while neither
// the controller nor a VolumeAttachment has it there. A detach takes it off volumesInUse first;
// an attach has a pod that wants it.
func detachedUnder(p *facts.View, node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	pair := reconcile.VolumeNode{Volume: volume, Node: facts.NodeName(node)}
	driver, _, ok := reconcile.ParseCSI(volume)
	if !ok || !p.AttachRequired(driver) || p.Lists(node, volume) || p.Snapshot.VolumeAttachment(facts.AttachmentName(pair)) != nil ||
		len(p.World.Attachments(pair)) > 0 || p.World.Desired.Find(pair) != nil || len(p.World.LivePods(pair)) > 0 {
		return false
	}
	// An attachment whose volume is not known may be this one.
	if slices.ContainsFunc(p.AttachmentsOn(pair.Node), func(va *storagev1.VolumeAttachment) bool {
		if va.Spec.Attacher != driver {
			return false
		}
		_, err := p.World.AttachmentVolume(va)
		return err != nil
	}) {
		return false
	}
	// A pod that is deleted while its volume is still being detached elsewhere leaves the volume
	// in the list for some seconds. The pod that takes its place shows it.
	if p.HasNewUser(pair) {
		return false
	}
	// A pod that waits, or ended before its volume was mounted, keeps it in the list until the pod is
	// deleted, also where its claim or its volume has gone since: nothing is mounted for it.
	return !slices.ContainsFunc(p.Snapshot.PodsOnNode(pair.Node), func(pod *corev1.Pod) bool {
		return p.MayMount(pod, volume) && (!facts.Started(pod) || facts.NeverRan(pod))
	})
}

// using are the pods that may have their volumes mounted. A pod that still waits there waits for
// something else.
func using(pods []*corev1.Pod) []*corev1.Pod {
	return slices.DeleteFunc(slices.Clone(pods), func(pod *corev1.Pod) bool { return !facts.MayUseVolumes(pod) })
}

func detachedWhileMounted(p *check.Run, node *corev1.Node, volume corev1.UniqueVolumeName) {
	pv := p.ShortVolume(volume)
	f := facts.AboutNode(node, finding.Finding{
		Volume:           volume,
		PersistentVolume: pv,
		Message:          fmt.Sprintf("Node %s still has volume %s mounted, which counts as detached from it", node.Name, pv),
		Detail:           "the node reports the volume in use, and no pod uses it there",
		Cause: "the volume was detached by force while the node was not Ready, under the out-of-service taint, or by the deletion of its " +
			"VolumeAttachment; the node lived and kept its mount",
		Evidence: []finding.Evidence{
			{Object: "node/" + node.Name, Field: "status.volumesInUse", Value: string(volume)},
			{Object: "node/" + node.Name, Field: "status.volumesAttached", Value: "lacks it; lists " + facts.AttachedList(node.Status.VolumesAttached)},
			{Object: "volumeattachment/" + facts.AttachmentName(reconcile.VolumeNode{Volume: volume, Node: facts.NodeName(node)}), Field: "metadata.name", Value: "there is no such object"},
			{Object: "node/" + node.Name, Field: "status.conditions[Ready]", Value: facts.ReadyText(node)},
		},
		SelfHeals: finding.SelfHeals{Because: "the kubelet cannot unmount a lost device; a restart of the machine clears it"},
		Advice: "{do} {reversible} cordon node " + node.Name + " to keep pods away from it; {reboot-node}; {check} check the file system: what the old pod had not written is lost, or was " +
			"written too late",
		AdviceCommands: []string{safetext.Kubectl("cordon", "node/"+node.Name)},
	})
	if va := attachedElsewhere(p.View, f.Pair()); va != nil && p.OneNode(volume) {
		f.Severity, f.VolumeAttachment = finding.Error, va.Name
		facts.Also(&f, "the volume is now attached to node %s", va.Node)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "status.attached", Value: "true on node " + string(va.Node)})
		f.Pods = facts.PodNames(using(p.World.LivePods(va.VolumeNode)))
	}
	f = f.UntilAgain(p.Snapshot.TakenAt, facts.ListsGrace, "a pod that waited there for the volume was deleted a moment ago, and the kubelet has not taken the volume off its list yet")
	if !statusUnchanged(p.View, node) {
		f.Severity = finding.Info // the volume may have entered and left the list within this minute
	}
	p.Report(f)
}
