package attached

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var NodeTerminationBlockedByVA = check.Check{
	Code:     "VD113",
	Name:     "node-termination-blocked-by-va",
	Title:    "A drained node cannot go because VolumeAttachments are left on it",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	OfDriver: true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD101", "VD103", "VD104", "VD119"}, Share: check.OnNode, Match: keepsNode},
		{From: []finding.Code{"VD601", "VD604"}, Match: driverKeepsNode},
	},
	Never: "take finalizers off the node or the VolumeAttachment: the machine goes with the volume attached, or the volume is left behind",
	Run:   runNodeTerminationBlockedByVA,
}

const (
	// terminationTakes is how long the deletion of a node may take. A judgement: whatever deletes
	// the node drains it, and waits for its volumes.
	terminationTakes = 10 * time.Minute
	// detachGrace is how long one detach may take: an operation of the
	// controller, and its back-off, which is as long.
	detachGrace = 2 * reconcile.CSITimeout
)

func runNodeTerminationBlockedByVA(p *check.Run) {
	if p.ControllerJustStarted() {
		return
	}
	for _, node := range p.Snapshot.Nodes {
		if node.DeletionTimestamp == nil || p.Age(*node.DeletionTimestamp) < terminationTakes || !reconcile.NodeReady(node) ||
			!statusUnchanged(p.View, node) || slices.ContainsFunc(p.Snapshot.PodsOnNode(facts.NodeName(node)), drainable) {
			continue // node-lost-6min and the like report a node that is not Ready
		}
		if left := leftOn(p.View, node); len(left) > 0 {
			terminationBlocked(p, node, left)
		}
	}
}

// drainable reports whether a drain still has to end the pod: as long as there is one, the drain
// itself takes its time.
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
	said   *finding.Quote // nil where nobody said anything
	// stays reports whether a drain leaves the pod that uses it.
	stays bool
}

// leftOn are the VolumeAttachments that keep the node. Nobody waits for those of volumes for many
// nodes. Those of pods that a drain leaves count only where there is no other.
func leftOn(p *facts.View, node *corev1.Node) []leftover {
	var left, stays []leftover
	for _, va := range p.AttachmentsOn(facts.NodeName(node)) {
		if p.Age(va.CreationTimestamp) < detachGrace ||
			facts.Deleting(va) && p.Age(*va.DeletionTimestamp) < detachGrace {
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
		pair := reconcile.VolumeNode{Volume: volume, Node: facts.NodeName(node)}
		l := leftover{va: va, volume: p.ShortVolume(volume)}
		pods := p.World.LivePods(pair)
		switch {
		case !p.OneNode(volume):
			continue
		case len(pods) > 0:
			l.why, l.stays = "pod "+facts.PodName(pods[0])+", which a drain leaves alone, uses it", true
			stays = append(stays, l)
			continue
		case facts.Deleting(va) && p.DetachError(va) != nil:
			l.why, l.said = "the driver fails to detach it", facts.QuoteDriver(va.Spec.Attacher, va.Status.DetachError)
		case facts.Deleting(va):
			l.why = "its detach has been asked for at " + facts.Stamp(*va.DeletionTimestamp) + " and has not ended"
		case facts.InUse(node, volume):
			l.why = "the kubelet has not unmounted it"
		case !(facts.Attachment{VolumeAttachment: va, VolumeNode: pair}).Ours():
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

func terminationBlocked(p *check.Run, node *corev1.Node, left []leftover) {
	first := left[0]
	f := facts.AboutNode(node, finding.Finding{
		Since:   node.DeletionTimestamp,
		Message: fmt.Sprintf("Node %s is drained and to be deleted, but volume %s is still attached to it", node.Name, first.volume),
		Detail:  fmt.Sprintf("%s; the node was told to go %s ago", first.why, facts.Rounded(p.Age(*node.DeletionTimestamp))),
		Said:    first.said,
		Cause:   "whatever deletes the node (an autoscaler, Cluster API) waits until its volumes are detached",
		Evidence: []finding.Evidence{
			{Object: "node/" + node.Name, Field: "metadata.deletionTimestamp", Value: facts.Stamp(*node.DeletionTimestamp)},
			{Object: "node/" + node.Name, Field: "metadata.finalizers", Value: fmt.Sprint(node.Finalizers)},
		},
		SelfHeals: finding.SelfHeals{Because: "its VolumeAttachments have to go first; each VolumeAttachment waits for its own reason"},
		Advice:    "{fix} fix what keeps each VolumeAttachment: each has a finding of its own where the reason is known",
	})
	if first.stays {
		f.Severity = finding.Info
		f.Cause = "some of the programs that delete nodes wait for the volumes of such pods too (Cluster API), others do not (Karpenter)"
	}
	if others := len(left) - 1; others > 0 {
		facts.Also(&f, "VolumeAttachments of other volumes that are left: %d", others)
	}
	for _, l := range left {
		value := l.volume + ": " + l.why
		if l.said != nil {
			value += ": " + l.said.Text
		}
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "volumeattachment/" + l.va.Name, Field: "status", Value: value})
	}
	p.Report(f)
}

// keepsNode reports whether the node waits only for the cause's VolumeAttachment. Of several,
// each keeps it.
func keepsNode(p *facts.View, cause, effect finding.Finding) bool {
	return cause.Node == effect.Node && waitsOnlyFor(p, effect, func(va *storagev1.VolumeAttachment) bool { return va.Name == cause.VolumeAttachment })
}

func driverKeepsNode(p *facts.View, cause, effect finding.Finding) bool {
	return waitsOnlyFor(p, effect, func(va *storagev1.VolumeAttachment) bool {
		return facts.Deleting(va) && va.Spec.Attacher == p.DriverOf(cause)
	})
}

func waitsOnlyFor(p *facts.View, f finding.Finding, is func(*storagev1.VolumeAttachment) bool) bool {
	node := p.Snapshot.Node(f.Node)
	return node != nil && !slices.ContainsFunc(leftOn(p, node), func(l leftover) bool { return !is(l.va) })
}
