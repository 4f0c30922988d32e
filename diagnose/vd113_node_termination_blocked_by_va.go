package diagnose

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var nodeTerminationBlockedByVA = Check{
	Code:     "VD113",
	Name:     "node-termination-blocked-by-va",
	Title:    "A drained node cannot go because VolumeAttachments are left on it",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runNodeTerminationBlockedByVA,
}

const (
	// terminationTakes is how long the deletion of a node may take: whatever
	// deletes it drains it, and waits for the volumes that the pods leave.
	terminationTakes = 10 * time.Minute
	// detachSettles is how long one detach may take: an operation of the
	// controller is 2 min, and its back-off as much.
	detachSettles = 4 * time.Minute
)

func runNodeTerminationBlockedByVA(p *Pass) {
	if p.controllerJustStarted() {
		return
	}
	for _, node := range p.Snapshot.Nodes {
		if node.DeletionTimestamp == nil || p.Age(*node.DeletionTimestamp) < terminationTakes || !reconcile.NodeReady(node) ||
			!p.statusSettled(node) || slices.ContainsFunc(p.Snapshot.PodsOnNode(nodeName(node)), drainable) {
			continue // of a node that is not Ready node-lost-6min and its like speak
		}
		if left := p.leftOn(node); len(left) > 0 {
			p.terminationBlocked(node, left)
		}
	}
}

// drainable says that a drain still has to end the pod: as long as there is
// one, it is the drain that takes its time.
func drainable(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return !reconcile.PodTerminated(pod) && pod.Annotations[corev1.MirrorPodAnnotationKey] == "" && (owner == nil || owner.Kind != "DaemonSet" && owner.Kind != "Node") &&
		!slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "" && t.Operator == corev1.TolerationOpExists })
}

// leftover is a VolumeAttachment that stays on a drained node, and why.
type leftover struct {
	va     *storagev1.VolumeAttachment
	volume string
	why    string
	// stays says that a drain leaves the pod that uses it.
	stays bool
}

// leftOn are the node's VolumeAttachments that keep it. Those of volumes for
// many nodes nobody waits for; those of pods that a drain leaves count only
// where there is no other.
func (p *Pass) leftOn(node *corev1.Node) []leftover {
	var left, stays []leftover
	for _, va := range p.attachmentsOn(nodeName(node)) {
		if p.Age(va.CreationTimestamp) < detachSettles ||
			deleting(va) && p.Age(*va.DeletionTimestamp) < detachSettles {
			continue
		}
		volume, err := p.World.AttachmentVolume(va)
		if err != nil {
			name := va.Name
			if pv := va.Spec.Source.PersistentVolumeName; pv != nil {
				name = *pv
			}
			left = append(left, leftover{va: va, volume: name, why: "the controller passes it over: " + err.Error()})
			continue
		}
		pair := reconcile.VolumeNode{Volume: volume, Node: nodeName(node)}
		l := leftover{va: va, volume: p.shortVolume(volume)}
		pods := p.World.LivePods(pair)
		switch {
		case !p.oneNode(volume):
			continue
		case len(pods) > 0:
			l.why, l.stays = "pod "+podName(pods[0])+", which a drain leaves alone, uses it", true
			stays = append(stays, l)
			continue
		case deleting(va) && va.Status.DetachError != nil:
			l.why = fmt.Sprintf("the driver fails to detach it: %q", va.Status.DetachError.Message)
		case deleting(va):
			l.why = "its detach has been asked for at " + stamp(*va.DeletionTimestamp) + " and has not ended"
		case inUse(node, volume):
			l.why = "the kubelet has not unmounted it"
		case !(attachment{VolumeAttachment: va, VolumeNode: pair}).ours():
			l.why = "it is not the controller's: another program made it"
		default:
			l.why = "nothing uses it, and the controller has not detached it"
		}
		left = append(left, l)
	}
	if len(left) == 0 {
		return stays
	}
	return left
}

func (p *Pass) terminationBlocked(node *corev1.Node, left []leftover) {
	first := left[0]
	f := Finding{
		Subject: Object{Kind: "Node", Name: node.Name, UID: node.UID},
		Node:    nodeName(node),
		Since:   node.DeletionTimestamp,
		Message: fmt.Sprintf("Node %s was told to go %s ago and is drained, but volume %s is still attached to it: %s",
			node.Name, rounded(p.Age(*node.DeletionTimestamp)), first.volume, first.why),
		Cause: "whatever deletes the node (an autoscaler, Cluster API) waits until its volumes are detached",
		Evidence: []Evidence{
			{"node/" + node.Name, "metadata.deletionTimestamp", stamp(*node.DeletionTimestamp)},
			{"node/" + node.Name, "metadata.finalizers", fmt.Sprint(node.Finalizers)},
		},
		SelfHeals: SelfHeals{Because: "the node goes once its VolumeAttachments are gone, and each of them waits for its own reason"},
		Advice: "mend what keeps each VolumeAttachment; it has a finding of its own where its reason is known. Do not take finalizers off, the node's or the " +
			"VolumeAttachment's: the machine would go with the volume attached, or the volume be left behind",
	}
	if first.stays {
		f.Severity = Info
		f.Cause = "some of the programs that delete nodes wait for the volumes of such pods too (Cluster API), others do not (Karpenter)"
	}
	if others := len(left) - 1; others > 0 {
		f.Message += fmt.Sprintf("; others that are left: %d", others)
	}
	for _, l := range left {
		f.Evidence = append(f.Evidence, Evidence{"volumeattachment/" + l.va.Name, "status", l.volume + ": " + l.why})
	}
	p.Report(f)
}
