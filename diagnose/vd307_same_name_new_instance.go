package diagnose

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var sameNameNewInstance = Check{
	Code:     "VD307",
	Name:     "same-name-new-instance",
	Title:    "A node was made anew under its name on another machine, and its volumes are attached to the old one",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes,
	},
	Run: runSameNameNewInstance,
}

// deviceAppears is how long a pod may wait for a volume that is attached before
// the device counts as missing: a driver that compares its attachments once a
// minute attaches it to the new machine by itself, and an attach takes 2 min.
const deviceAppears = 5 * time.Minute

func runSameNameNewInstance(p *Pass) {
	byNode := p.attachmentsByNode()
	for _, va := range p.attachments() {
		was, is, ok := p.otherMachine(va)
		node := p.Snapshot.Node(va.Node)
		if !ok || !reconcile.NodeReady(node) {
			continue
		}
		if !lists(node, va.Volume) && !emptied(node, byNode[node.Name]) {
			continue // inuse-not-attached: the kubelet waits for the entry first
		}
		users := p.World.LivePods(va.VolumeNode)
		pods := pending(users)
		longestFirst(pods)
		// A pod that has started there proves that the volume is on the machine.
		if len(pods) > 0 && len(pods) == len(users) && p.Age(boundAt(pods[0])) >= deviceAppears {
			p.otherInstance(va, was, is, pods)
		}
	}
}

// otherMachine gives the driver's names for the machine that the volume was
// attached to and for the one that has the node's name now, where they differ
// and the node was made anew in between. A driver that names nodes otherwise
// since an upgrade changes the name too, but the Node stays.
func (p *Pass) otherMachine(va attachment) (was, is string, ok bool) {
	node := p.Snapshot.Node(va.Node)
	if node == nil || !older(va, node) {
		return "", "", false
	}
	was, is = va.Annotations[machineAnnotation], p.machine(va)
	return was, is, was != "" && is != "" && was != is
}

func (p *Pass) otherInstance(va attachment, was, is string, pods []*corev1.Pod) {
	node, pod, pv := p.Snapshot.Node(va.Node), pods[0], p.shortVolume(va.Volume)
	since := latest(boundAt(pod), metav1.NewTime(node.CreationTimestamp.Time))
	p.Report(Finding{
		Subject:          podObject(pod),
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Pods:             podNames(pods),
		Since:            &since,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, which counts as attached there but was attached to machine %s; the node is now machine %s",
			podName(pod), node.Name, pv, was, is),
		Cause: "the machine was replaced, and its successor took the name before the volume was detached; to the controller the node is the same",
		Evidence: []Evidence{
			{va.object(), "metadata.annotations[" + machineAnnotation + "]", was},
			{"csinode/" + node.Name, "spec.drivers[" + va.Spec.Attacher + "].nodeID", is},
			{va.object(), "metadata.creationTimestamp", stamp(va.CreationTimestamp)},
			{"node/" + node.Name, "metadata.creationTimestamp", stamp(node.CreationTimestamp)},
		},
		SelfHeals: SelfHeals{Because: "the VolumeAttachment says attached, and nobody compares the machine; only some drivers ask their storage system once a minute " +
			"and would have attached it anew by now"},
		Advice: fmt.Sprintf("see at the provider that machine %s is gone, as it still has the volume if it lives; then delete the VolumeAttachment and leave its "+
			"finalizer alone: the controller attaches the volume to the new machine within about 2 min", was),
	})
}
