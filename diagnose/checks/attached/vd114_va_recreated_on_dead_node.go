package attached

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var VaRecreatedOnDeadNode = check.Check{
	Code:     "VD114",
	Name:     "va-recreated-on-dead-node",
	Title:    "A VolumeAttachment of a node that is not Ready was deleted, and the controller has recreated it",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	OfDriver: true,
	Never:    "delete the VolumeAttachment again: the controller recreates it while the pod counts as a user",
	Run:      runVARecreatedOnDeadNode,
}

func runVARecreatedOnDeadNode(p *check.Run) {
	for _, va := range p.Attachments() {
		if p.RecreatedOnLost(va) {
			recreatedOnDeadNode(p, va)
		}
	}
}

func recreatedOnDeadNode(p *check.Run, va facts.Attachment) {
	node, pv := p.Snapshot.Node(va.Node), p.ShortVolumeOf(va)
	pod := p.RanBefore(va.VolumeNode, facts.NotReadySince(node))[0]
	f := p.About(va, finding.Finding{
		Pods:    facts.PodNames([]*corev1.Pod{pod}),
		Since:   &va.CreationTimestamp,
		Message: fmt.Sprintf("The VolumeAttachment of volume %s on lost node %s was deleted and made again", pv, va.Node),
		Detail:  fmt.Sprintf("it was made again at %s for pod %s, when the node was no longer Ready", facts.Stamp(va.CreationTimestamp), facts.PodName(pod)),
		Cause:   "somebody deleted the VolumeAttachment while a pod on the node still counted as a user of the volume; the controller restores it within about a minute",
		Evidence: []finding.Evidence{
			{Object: va.Object(), Field: "metadata.creationTimestamp", Value: facts.Stamp(va.CreationTimestamp)},
			{Object: "node/" + node.Name, Field: "status.conditions[Ready]", Value: facts.ReadyText(node)},
			{Object: "pod/" + facts.PodName(pod), Field: "spec.nodeName", Value: fmt.Sprintf("%s since %s", pod.Spec.NodeName, facts.Stamp(facts.BoundAt(pod)))},
			{Object: va.Object(), Field: "status.attached", Value: fmt.Sprint(va.Status.Attached)},
		},
		SelfHeals:      finding.SelfHeals{Because: "the pod still counts as a user; as long as it does, the controller wants the volume on this node, and deleting the VolumeAttachment again changes nothing"},
		Advice:         "{check} check the file system before it is used elsewhere: the driver was told to detach the volume while the node may have written",
		ByHand:         "{power-off}; {taint-node}",
		AdviceCommands: []string{facts.TaintOutOfService(node.Name)},
	})
	p.AddKeptFrom(&f)
	p.Report(f)
}
