package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var nodeNotControllerManaged = Check{
	Code:     "VD402",
	Name:     "node-not-controller-managed",
	Title:    "The controller ignores a node, and a pod there waits for an attach",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	},
	Run: runNodeNotControllerManaged,
}

// managedAnnotation is what the kubelet puts on its node to leave attaching to
// the controller. Its presence counts, whatever its value.
const managedAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"

func runNodeNotControllerManaged(p *Pass) {
	for _, node := range p.Snapshot.Nodes {
		// A kubelet annotates its node as it registers it.
		if p.World.Managed.Has(nodeName(node)) || p.Age(node.CreationTimestamp) < listsSettle || virtual(node) {
			continue
		}
		if ignored := p.ignoredVolumes(node); len(ignored) > 0 {
			p.notManaged(node, ignored)
		}
	}
}

// virtual says that there is no kubelet behind the node: whatever runs the pods
// brings their volumes itself.
func virtual(node *corev1.Node) bool {
	return node.Labels["type"] == "virtual-kubelet" || slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == "virtual-kubelet.io/provider"
	})
}

// ignoredVolumes are the CSI volumes that pods on the node wait for and that
// nobody has begun to attach. The kubelet attaches other kinds itself.
func (p *Pass) ignoredVolumes(node *corev1.Node) []podVolume {
	pods := p.pendingOn(nodeName(node))
	longestFirst(pods)
	var ignored []podVolume
	for _, pod := range pods {
		if reconcile.PodTerminated(pod) || p.Age(boundAt(pod)) < listsSettle {
			continue
		}
		for i := range pod.Spec.Volumes {
			name, _, err := p.World.PodVolume(pod, &pod.Spec.Volumes[i])
			if err != nil {
				continue
			}
			pair := reconcile.VolumeNode{Volume: name, Node: nodeName(node)}
			if _, _, csi := reconcile.ParseCSI(name); csi && len(p.World.Attachments(pair)) == 0 {
				ignored = append(ignored, podVolume{pod, name, p.shortVolume(name)})
			}
		}
	}
	return ignored
}

// notManaged makes one finding of the node, whose kubelet's setting is the one
// thing wrong.
func (p *Pass) notManaged(node *corev1.Node, ignored []podVolume) {
	first := ignored[0]
	since := boundAt(first.pod)
	f := Finding{
		Subject: Object{Kind: "Node", Name: node.Name, UID: node.UID},
		Node:    nodeName(node),
		Since:   &since,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, which nobody attaches: the node lacks the annotation with which its kubelet "+
			"leaves that to the controller", podName(first.pod), node.Name, first.name),
		Cause: "the kubelet of the node runs with enableControllerAttachDetach: false, or somebody took the annotation off; a kubelet cannot " +
			"attach CSI volumes itself",
		Evidence: []Evidence{{"node/" + node.Name, "metadata.annotations", "lacks " + managedAnnotation}},
		SelfHeals: SelfHeals{Because: "the controller drops the pods of a node without the annotation without a word; the kubelet puts it on only " +
			"when it starts with enableControllerAttachDetach: true"},
		Advice: "set enableControllerAttachDetach: true in the node's kubelet configuration and restart that kubelet; to put the annotation on by hand " +
			"while the setting is false makes two programs attach",
	}
	var pods []*corev1.Pod
	for _, i := range ignored {
		if !slices.Contains(pods, i.pod) {
			pods = append(pods, i.pod)
		}
		f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(i.pod), "spec.volumes", string(i.volume) + " has no VolumeAttachment"})
	}
	f.Pods = podNames(pods)
	f.Message += alike(pods)
	p.Report(f)
}
