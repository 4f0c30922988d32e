package blocked

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

var PodsOnUnmanagedNode = check.Check{
	Code:        "VD408",
	Name:        "pods-on-unmanaged-node",
	Title:       "Pods run with attached volumes on a node that a controller which restarts would ignore",
	Severity:    finding.Warning,
	Needs:       check.AttachmentKinds(),
	OfNamespace: true,
	OfDriver:    true,
	Yields: []check.Yield{
		{To: "VD402", Key: check.OfNode},
	},
	Never: "put the annotation on by hand or restart kube-controller-manager: the volumes may then be detached",
	Run:   runPodsOnUnmanagedNode,
}

// runPodsOnUnmanagedNode reports a danger that node-not-controller-managed does not cover: a
// controller at work keeps a node that it once managed, and one that restarts ignores its pods
// (addNodeToDswp and nodeAdd).
func runPodsOnUnmanagedNode(p *check.Run) {
	for _, node := range p.Snapshot.Nodes {
		if p.World.Managed.Has(facts.NodeName(node)) || facts.TakesNoPlugin(node) || p.Age(node.CreationTimestamp) < facts.RegistrationGrace {
			continue
		}
		var exposed []facts.PodVolume
		for _, pod := range p.Snapshot.PodsOnNode(facts.NodeName(node)) {
			if pod.DeletionTimestamp == nil && facts.Mounted(pod) && p.Age(facts.BoundAt(pod)) >= facts.ListsGrace {
				exposed = append(exposed, attachedVolumesOf(p.View, pod)...)
			}
		}
		if len(exposed) > 0 {
			podsOnUnmanagedNode(p, node, exposed)
		}
	}
}

// attachedVolumesOf are the pod's volumes that are attached to its node.
func attachedVolumesOf(p *facts.View, pod *corev1.Pod) []facts.PodVolume {
	var list []facts.PodVolume
	for i := range pod.Spec.Volumes {
		name, _, err := p.World.PodVolume(pod, &pod.Spec.Volumes[i])
		if err == nil && slices.ContainsFunc(p.World.Attachments(reconcile.VolumeNode{Volume: name, Node: facts.NodeOf(pod)}), facts.Holds) {
			list = append(list, facts.PodVolume{Pod: pod, Volume: name, Name: p.ShortVolume(name)})
		}
	}
	return list
}

func podsOnUnmanagedNode(p *check.Run, node *corev1.Node, exposed []facts.PodVolume) {
	first, pods := exposed[0], facts.PodsOf(exposed)
	f := facts.AboutNode(node, finding.Finding{
		Pods:    facts.PodNames(pods),
		Message: fmt.Sprintf("Pod %s on node %s may lose volume %s: the controller overlooks the pod", facts.PodName(first.Pod), node.Name, first.Name),
		Detail: "the node lacks the annotation by which the controller takes its pods into account; a controller that restarts detaches the volume as soon as " +
			"the kubelet's list lacks it",
		Cause: "somebody took the annotation off, or the kubelet was restarted with enableControllerAttachDetach: false",
		Evidence: []finding.Evidence{
			{Object: "node/" + node.Name, Field: "metadata.annotations", Value: "lacks " + reconcile.ManagedAnnotation},
		},
		SelfHeals: finding.SelfHeals{Because: "the controller goes on only until it restarts; the kubelet puts the annotation on only when it starts with " +
			"enableControllerAttachDetach: true"},
		Advice: "{change} set enableControllerAttachDetach to true in the node's kubelet configuration; {restart-kubelet}: until that is done, the volumes are detached by force " +
			"6 min after kube-controller-manager restarts or the node stops being Ready",
	})
	if !reconcile.NodeReady(node) && !slices.ContainsFunc(pods, facts.Outstays) {
		f.SelfHeals = finding.SelfHeals{Unknown: true, Because: fmt.Sprintf("kube-controller-manager deletes the pods unless node %s returns in time; %s", node.Name, f.SelfHeals.Because)}
		f.Advice = fmt.Sprintf("{fix} bring node %s back; {change} set enableControllerAttachDetach to true in its kubelet configuration, and {restart-kubelet}: if kube-controller-manager "+
			"restarts first, it detaches the volumes by force 6 min later", node.Name)
	}
	for _, v := range exposed {
		guard := "lacks it: nothing guards the mount"
		if facts.InUse(node, v.Volume) {
			guard = "lists it: that alone guards the mount"
		}
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "status.volumesInUse", Value: guard + " (" + string(v.Volume) + ")"})
	}
	p.Report(f)
}
