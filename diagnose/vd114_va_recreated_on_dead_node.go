package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var vaRecreatedOnDeadNode = Check{
	Code:     "VD114",
	Name:     "va-recreated-on-dead-node",
	Title:    "A VolumeAttachment of a node that is not Ready was deleted, and the controller has made it anew",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runVARecreatedOnDeadNode,
}

func runVARecreatedOnDeadNode(p *Pass) {
	waiting := p.waiting()
	for _, va := range p.attachments() {
		if p.recreated(va) && p.Age(va.CreationTimestamp) >= listsSettle {
			p.recreatedOnDeadNode(va, elsewhere(waiting[va.Volume], va.Node))
		}
	}
}

func (p *Pass) recreatedOnDeadNode(va attachment, waiters []*corev1.Pod) {
	node, pv := p.Snapshot.Node(va.Node), p.shortVolume(va.Volume)
	pod := p.ranBefore(va.VolumeNode, notReadySince(node))[0]
	f := Finding{
		Subject:          Object{Kind: "VolumeAttachment", Name: va.Name, UID: va.UID},
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Pods:             podNames([]*corev1.Pod{pod}),
		Since:            &va.CreationTimestamp,
		Message: fmt.Sprintf("The VolumeAttachment of volume %s on node %s was made at %s, after the node had ceased to be Ready, for pod %s, which ran there before: "+
			"an earlier one was deleted, and the controller has made it anew", pv, va.Node, stamp(va.CreationTimestamp), podName(pod)),
		Cause: "somebody deleted the VolumeAttachment while a pod on the node still counted as a user of the volume; the controller restores it within about a minute",
		Evidence: []Evidence{
			{va.object(), "metadata.creationTimestamp", stamp(va.CreationTimestamp)},
			{"node/" + node.Name, "status.conditions[Ready]", readyText(node)},
			{"pod/" + podName(pod), "spec.nodeName", fmt.Sprintf("%s since %s", pod.Spec.NodeName, stamp(boundAt(pod)))},
			{va.object(), "status.attached", fmt.Sprint(va.Status.Attached)},
		},
		SelfHeals: SelfHeals{Because: "as long as the pod counts as a user the controller wants the volume on this node; deleting the VolumeAttachment again changes nothing"},
		Advice: fmt.Sprintf("leave the VolumeAttachment alone and get the pod out first: power the machine behind %s off, and then tell the cluster so: "+
			"kubectl taint nodes %s node.kubernetes.io/out-of-service=nodeshutdown:NoExecute. The driver was told to detach the volume while the node may "+
			"have written: check the file system before it is used elsewhere", node.Name, node.Name),
	}
	if len(waiters) > 0 && p.oneNode(va.Volume) {
		f.Severity, f.Pods = Error, podNames(append([]*corev1.Pod{pod}, waiters...))
		f.Message += fmt.Sprintf("; pod %s waits for the volume on node %s", podName(waiters[0]), waiters[0].Spec.NodeName)
	}
	p.Report(f)
}
