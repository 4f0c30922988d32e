package multiattach

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var SilentDoubleUse = check.Check{
	Code:     "VD205",
	Name:     "silent-double-use",
	Title:    "A ReadWriteOnce volume is used on one node and attached to another",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	Never:    "delete a VolumeAttachment or force-delete a pod: both take the disk from under a mount",
	Run:      runSilentDoubleUse,
}

// place is a node that has a volume, and what shows it.
type place struct {
	node *corev1.Node
	// users are the pods there that may write to the volume.
	users    []*corev1.Pod
	since    metav1.Time
	evidence []finding.Evidence
}

// runSilentDoubleUse needs no grace: a kubelet takes a volume off volumesInUse before the
// controller detaches it, and only then is it attached elsewhere. The attachments are read before
// the nodes, and the nodes before the pods.
func runSilentDoubleUse(p *check.Run) {
	users := map[corev1.UniqueVolumeName][]place{}
	for _, node := range p.Snapshot.Nodes {
		if !reconcile.NodeReady(node) {
			continue // its lists are old, and other checks are about lost nodes
		}
		for _, volume := range node.Status.VolumesInUse {
			if !elsewhere(p.View, reconcile.VolumeNode{Volume: volume, Node: facts.NodeName(node)}) {
				continue // nearly every volume is in one place
			}
			if used, ok := usedOn(p.View, node, volume); ok {
				users[volume] = append(users[volume], used)
			}
		}
	}
	reported := map[corev1.UniqueVolumeName]bool{}
	for _, node := range p.Snapshot.Nodes {
		for _, volume := range node.Status.VolumesInUse {
			if reported[volume] || len(users[volume]) == 0 || !p.OneNode(volume) {
				continue
			}
			reported[volume] = true
			if two, ok := twoPlaces(p.View, volume, users[volume]); ok && !ofOthers(p.View, volume, two) {
				doubleUse(p, volume, two)
			}
		}
	}
	runOnePodTwice(p)
}

// elsewhere reports whether there may be another place than the pair's node.
func elsewhere(p *facts.View, pair reconcile.VolumeNode) bool {
	return p.UsedElsewhere(pair) ||
		slices.ContainsFunc(p.AttachmentsOf(pair.Volume), func(va facts.Attachment) bool { return va.Node != pair.Node })
}

// usedOn is the place where a pod on the node may write to the volume; false where none does.
func usedOn(p *facts.View, node *corev1.Node, volume corev1.UniqueVolumeName) (place, bool) {
	pair := reconcile.VolumeNode{Volume: volume, Node: facts.NodeName(node)}
	pods := slices.DeleteFunc(p.World.LivePods(pair), func(pod *corev1.Pod) bool {
		return !facts.MayUseVolumes(pod) || reconcile.PodTerminated(pod)
	})
	if len(pods) == 0 {
		return place{}, false
	}
	facts.LongestFirst(pods)
	return place{node, pods, facts.BoundAt(pods[0]), []finding.Evidence{
		{Object: "node/" + node.Name, Field: "status.volumesInUse", Value: "lists " + string(volume)},
		{Object: "pod/" + facts.PodName(pods[0]), Field: "status.phase", Value: fmt.Sprintf("%s on node %s", pods[0].Status.Phase, node.Name)},
	}}, true
}

// attachedTo are the living nodes to which the volume is attached.
func attachedTo(p *facts.View, volume corev1.UniqueVolumeName) []place {
	var places []place
	for _, va := range p.AttachmentsOf(volume) {
		if node := p.Snapshot.Node(va.Node); va.Holds() && reconcile.NodeReady(node) {
			places = append(places, place{node, nil, va.CreationTimestamp, []finding.Evidence{
				{Object: va.Object(), Field: "status.attached", Value: "true on node " + string(va.Node)},
			}})
		}
	}
	return places
}

// twoPlaces are the node that has used the volume longest, and another that uses it or has it
// attached.
func twoPlaces(p *facts.View, volume corev1.UniqueVolumeName, users []place) (two [2]place, ok bool) {
	slices.SortStableFunc(users, func(a, b place) int { return a.since.Compare(b.since.Time) })
	two[0] = users[0]
	for _, other := range slices.Concat(users[1:], attachedTo(p, volume)) {
		if other.node != two[0].node {
			two[1] = other
			return two, true
		}
	}
	return two, false
}

// ofOthers reports whether the finding is another check's: two-vas-one-rwo once it is sure of the
// attachments, or dangling-after-kcm-restart where nothing uses one of them any more.
func ofOthers(p *facts.View, volume corev1.UniqueVolumeName, two [2]place) bool {
	old := func(va facts.Attachment) bool {
		if p.Forgotten(va.VolumeNode) {
			return slices.ContainsFunc(p.Danglings(), func(d facts.Attachment) bool { return d.Name == va.Name })
		}
		return p.Age(va.CreationTimestamp) >= handOver
	}
	has := func(node *corev1.Node) bool {
		return slices.ContainsFunc(p.AttachmentsOf(volume), func(va facts.Attachment) bool {
			return va.Holds() && va.Node == types.NodeName(node.Name) && old(va)
		})
	}
	return !p.ControllerYounger(handOver) && has(two[0].node) && has(two[1].node)
}

// isAttached reports whether a VolumeAttachment attaches the volume to the node.
func isAttached(p *facts.View, volume corev1.UniqueVolumeName, node *corev1.Node) bool {
	return slices.ContainsFunc(p.AttachmentsOf(volume), func(va facts.Attachment) bool { return va.Holds() && va.Node == facts.NodeName(node) })
}

// leaves is whether the volume leaves one of the nodes by itself, the first for which that is known.
// It does not where a pod on each of them goes on to use it: then why is the reason.
func leaves(p *facts.View, volume corev1.UniqueVolumeName, why string, nodes ...*corev1.Node) finding.SelfHeals {
	for _, node := range nodes {
		pair := reconcile.VolumeNode{Volume: volume, Node: facts.NodeName(node)}
		users := p.World.LivePods(pair)
		if slices.ContainsFunc(users, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil }) {
			continue
		}
		use, then := "no pod uses it on node "+node.Name, "the controller detaches it from there within some minutes, unless it has forgotten it there"
		switch {
		case len(users) > 0:
			use, then = fmt.Sprintf("pod %s is Terminating on node %s", facts.PodName(users[0]), node.Name), "once it has ended, the kubelet unmounts the volume there"
		case !reconcile.NodeReady(node):
			then = "the controller detaches it from there by force, as the node is not Ready"
		case facts.InUse(node, volume):
			then = "the controller detaches it from there once the kubelet has unmounted it"
		}
		vas := p.AttachmentsOf(volume)
		if i := slices.IndexFunc(vas, func(va facts.Attachment) bool { return va.VolumeNode == pair && va.Holds() && !va.Ours() }); i >= 0 {
			why = fmt.Sprintf("%s; VolumeAttachment %s is not the controller's, which never deletes it", use, vas[i].Name)
			continue
		}
		return finding.SelfHeals{Unknown: true, Because: use + "; " + then}
	}
	return finding.SelfHeals{Because: why}
}

func doubleUse(p *check.Run, volume corev1.UniqueVolumeName, two [2]place) {
	pv := p.World.Volume(volume)
	first, second := two[0], two[1]
	f := finding.Finding{
		Subject:          facts.PvObject(pv),
		Volume:           volume,
		Node:             facts.NodeName(second.node),
		PersistentVolume: pv.Name,
		Pods:             facts.PodNames(slices.Concat(first.users, second.users)),
		Since:            &second.since,
		Evidence: slices.Concat([]finding.Evidence{{Object: "persistentvolume/" + pv.Name, Field: "spec.accessModes", Value: fmt.Sprint(pv.Spec.AccessModes)}},
			first.evidence, second.evidence),
		Cause: "the controller attached the volume to a second node while the first still used it: it had forgotten the first one, for example because " +
			"the VolumeAttachment there was deleted by hand",
		SelfHeals: leaves(p.View, volume, "the controller does not know that both nodes have it", second.node, first.node),
		Advice:    facts.StopWriters(slices.Concat(first.users, second.users)) + ", until the node no longer lists the volume in volumesInUse; {check} check the file system",
	}
	f.Detail = fmt.Sprintf("pod %s uses it on node %s", facts.PodName(first.users[0]), first.node.Name)
	if len(second.users) > 0 {
		f.Message = fmt.Sprintf("Pods %s and %s both use single-node volume %s", facts.PodName(first.users[0]), facts.PodName(second.users[0]), pv.Name)
		facts.Also(&f, "pod %s uses it on node %s, and both may write to it", facts.PodName(second.users[0]), second.node.Name)
	} else {
		f.Message = fmt.Sprintf("Single-node volume %s is in use on node %s and attached to %s", pv.Name, first.node.Name, second.node.Name)
		facts.Also(&f, "on node %s the next pod would write to it, too", second.node.Name)
		f.Advice = fmt.Sprintf("{change} keep pods with this volume off node %s; {stop-pod}, and let it return once its node no longer lists the volume in volumesInUse: "+
			"nothing records that it is attached there; {check} check the file system", second.node.Name)
		if isAttached(p.View, volume, first.node) {
			f.Advice = fmt.Sprintf("{change} keep pods with this volume off node %s until it is detached from there; {check} check the file system", second.node.Name)
			f.Cause = fmt.Sprintf("an attach to node %s ended only after the volume had gone to node %s, as after an outage of the attacher, or the controller had forgotten one of the two, "+
				"for example because a VolumeAttachment was deleted by hand", second.node.Name, first.node.Name)
		}
	}
	p.Report(f)
}
