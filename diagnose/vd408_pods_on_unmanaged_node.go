package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var podsOnUnmanagedNode = Check{
	Code:     "VD408",
	Name:     "pods-on-unmanaged-node",
	Title:    "Pods run with attached volumes on a node that a controller which starts anew would ignore",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	},
	Run: runPodsOnUnmanagedNode,
}

// runPodsOnUnmanagedNode looks for the danger that node-not-controller-managed
// does not tell of: a controller at work keeps a node that it once managed, and
// one that starts anew passes over its pods (addNodeToDswp, and nodeAdd).
func runPodsOnUnmanagedNode(p *Pass) {
	for _, node := range p.Snapshot.Nodes {
		if p.World.Managed.Has(nodeName(node)) || virtual(node) || p.Age(node.CreationTimestamp) < registrationSettles {
			continue
		}
		var exposed []podVolume
		for _, pod := range p.Snapshot.PodsOnNode(nodeName(node)) {
			if pod.DeletionTimestamp == nil && mounted(pod) && p.Age(boundAt(pod)) >= listsSettle {
				exposed = append(exposed, p.attachedVolumesOf(pod)...)
			}
		}
		if len(exposed) > 0 && len(p.ignoredVolumes(node)) == 0 { // node-not-controller-managed has the same cause
			p.podsOnUnmanagedNode(node, exposed)
		}
	}
}

// attachedVolumesOf are the pod's volumes that are attached to its node.
func (p *Pass) attachedVolumesOf(pod *corev1.Pod) []podVolume {
	var list []podVolume
	for i := range pod.Spec.Volumes {
		name, _, err := p.World.PodVolume(pod, &pod.Spec.Volumes[i])
		if err == nil && slices.ContainsFunc(p.World.Attachments(reconcile.VolumeNode{Volume: name, Node: nodeOf(pod)}), holds) {
			list = append(list, podVolume{pod, name, p.shortVolume(name)})
		}
	}
	return list
}

func (p *Pass) podsOnUnmanagedNode(node *corev1.Node, exposed []podVolume) {
	first, pods := exposed[0], podsOf(exposed)
	f := Finding{
		Subject: Object{Kind: "Node", Name: node.Name, UID: node.UID},
		Node:    nodeName(node),
		Pods:    podNames(pods),
		Message: fmt.Sprintf("Pod %s runs on node %s with volume %s attached, and the node lacks the annotation by which the controller takes it into account: one that "+
			"starts anew detaches the volume as soon as the kubelet's list lacks it", podName(first.pod), node.Name, first.name),
		Cause: "somebody took the annotation off, or the kubelet was started anew with enableControllerAttachDetach: false",
		Evidence: []Evidence{
			{"node/" + node.Name, "metadata.annotations", "lacks " + managedAnnotation},
		},
		SelfHeals: SelfHeals{Because: "the controller at work goes on with a node that it has known; the kubelet puts the annotation on only when it starts with " +
			"enableControllerAttachDetach: true"},
		Advice: "set enableControllerAttachDetach: true in the node's kubelet configuration and restart that kubelet, before kube-controller-manager starts anew or the " +
			"node ceases to be Ready: after 6 min of that the volumes are detached by force",
	}
	for _, v := range exposed {
		guard := "lacks it: nothing guards the mount"
		if inUse(node, v.volume) {
			guard = "lists it: that alone guards the mount"
		}
		f.Evidence = append(f.Evidence, Evidence{"node/" + node.Name, "status.volumesInUse", guard + " (" + string(v.volume) + ")"})
	}
	p.Report(f)
}
