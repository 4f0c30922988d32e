package nodestatus

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var SameNameNewInstance = check.Check{
	Code:     "VD307",
	Name:     "same-name-new-instance",
	Title:    "A node was recreated under its name on another machine, and its volumes are attached to the old one",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes),
	OfDriver: true,
	Never:    "take its finalizer off: the old machine may still have the volume",
	Run:      runSameNameNewInstance,
}

func runSameNameNewInstance(p *check.Run) {
	byNode := p.AttachmentsByNode()
	for _, va := range p.Attachments() {
		was, is, ok := otherMachine(p.View, va)
		node := p.Snapshot.Node(va.Node)
		if !ok || !reconcile.NodeReady(node) {
			continue
		}
		if !p.Lists(node, va.Volume) && !emptied(node, byNode[node.Name]) {
			continue // inuse-not-attached: the kubelet waits for the entry first
		}
		users := slices.DeleteFunc(slices.Clone(p.World.LivePods(va.VolumeNode)), func(pod *corev1.Pod) bool {
			return !facts.Started(pod) && !p.ContainersUse(pod, va.Volume)
		})
		pods := facts.LongestFirst(facts.Pending(users))
		// A pod that has started there proves that the volume is on the machine.
		if len(pods) > 0 && len(pods) == len(users) && p.Lasted(facts.BoundAt(pods[0]), facts.DeviceGrace) {
			otherInstance(p, va, was, is, pods)
		}
	}
}

// otherMachine returns the driver's ids of the machine that the volume was attached to, and of
// the one that has the node's name now. ok is true where they differ and the Node was recreated
// in between. A driver's upgrade may change the id as well, but not the Node.
func otherMachine(p *facts.View, va facts.Attachment) (was, is string, ok bool) {
	node := p.Snapshot.Node(va.Node)
	if node == nil || !older(va, node) {
		return "", "", false
	}
	return p.OtherMachine(va.VolumeAttachment)
}

func otherInstance(p *check.Run, va facts.Attachment, was, is string, pods []*corev1.Pod) {
	node, pod, pv := p.Snapshot.Node(va.Node), pods[0], p.ShortVolumeOf(va)
	p.Report(p.About(va, finding.Finding{
		Subject:  facts.PodObject(pod),
		Pods:     facts.PodNames(pods),
		Since:    new(facts.Latest(facts.BoundAt(pod), node.CreationTimestamp)),
		Message:  fmt.Sprintf("Pod %s waits on node %s: its old machine has volume %s", facts.PodName(pod), node.Name, pv),
		Detail:   fmt.Sprintf("it was attached to machine %s; the node is now machine %s", was, is),
		Cause:    "the machine was replaced, and its successor took the name before the volume was detached; to the controller the node is the same",
		Actor:    kubeletwords.ClusterAdmin,
		Evidence: facts.ReplacedMachine(va, node, was, is),
		SelfHeals: finding.SelfHeals{Because: "nobody compares the machine; the VolumeAttachment says attached, and only some drivers ask their storage system once a minute " +
			"and would have attached it again by now"},
		Advice: fmt.Sprintf("{check} check at the provider that machine %s is gone, as it still has the volume if it lives; {do} {reversible} cordon node %s; %s: the "+
			"controller detaches the volume by itself, and has it attached where the successor goes; {do} {reversible} uncordon node %[2]s once the pod runs elsewhere", was, node.Name, step.DeletePod.Of(facts.PodNames(pods)...)),
	}))
}
