package blocked

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

var NodeNotControllerManaged = check.Check{
	Code:        "VD402",
	Name:        "node-not-controller-managed",
	Title:       "The controller ignores a node, and a pod there waits for an attach",
	Severity:    finding.Error,
	Needs:       check.AttachmentKinds(),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "put the annotation on by hand while the setting is false: two programs would attach",
	Run:         runNodeNotControllerManaged,
}

func runNodeNotControllerManaged(p *check.Run) {
	for _, node := range p.Snapshot.Nodes {
		// A kubelet annotates its node when it registers it.
		if p.World.Managed.Has(facts.NodeName(node)) || p.Age(node.CreationTimestamp) < facts.ListsGrace || facts.TakesNoPlugin(node) {
			continue
		}
		if ignored := ignoredVolumes(p.View, node); len(ignored) > 0 {
			notManaged(p, node, ignored)
		}
	}
}

// ignoredVolumes are the CSI volumes that pods on the node wait for and nobody has begun to
// attach. The kubelet attaches other kinds itself.
func ignoredVolumes(p *facts.View, node *corev1.Node) []facts.PodVolume {
	var ignored []facts.PodVolume
	for _, pod := range p.PendingOn(facts.NodeName(node)) {
		if reconcile.PodTerminated(pod) || !p.Lasted(facts.BoundAt(pod), facts.ListsGrace) {
			continue
		}
		for i := range pod.Spec.Volumes {
			name, _, err := p.World.PodVolume(pod, &pod.Spec.Volumes[i])
			if err != nil {
				continue
			}
			pair := reconcile.VolumeNode{Volume: name, Node: facts.NodeName(node)}
			if _, _, csi := reconcile.ParseCSI(name); csi && len(p.World.Attachments(pair)) == 0 {
				ignored = append(ignored, facts.PodVolume{Pod: pod, Volume: name, Name: p.ShortVolume(name)})
			}
		}
	}
	return ignored
}

// heldElsewhere is another node for which the volume has a VolumeAttachment. A controller manages
// a node that once had the annotation until the controller restarts, and no object shows whether
// this one had it. That nothing is attached therefore proves it only where nothing else is in the
// way.
func heldElsewhere(p *facts.View, node *corev1.Node, volume corev1.UniqueVolumeName) (types.NodeName, bool) {
	for _, va := range p.AttachmentsOf(volume) {
		if va.Node != facts.NodeName(node) {
			return va.Node, true
		}
	}
	return "", false
}

// notManaged makes one finding about the node: only the setting of its kubelet is wrong.
func notManaged(p *check.Run, node *corev1.Node, ignored []facts.PodVolume) {
	first, pods := ignored[0], facts.PodsOf(ignored)
	f := facts.AboutNode(node, finding.Finding{
		Pods:    facts.PodNames(pods),
		Since:   new(facts.BoundAt(first.Pod)),
		Message: fmt.Sprintf("Pod %s waits on node %s: nobody attaches volume %s there", facts.PodName(first.Pod), node.Name, first.Name),
		Detail:  finding.Clauses("the node lacks the annotation with which its kubelet leaves that to the controller", facts.Alike(pods)),
		Cause: "the kubelet of the node runs with enableControllerAttachDetach: false, or somebody took the annotation off; a kubelet cannot " +
			"attach CSI volumes itself",
		Evidence: []finding.Evidence{{Object: "node/" + node.Name, Field: "metadata.annotations", Value: "lacks " + reconcile.ManagedAnnotation}},
		SelfHeals: finding.SelfHeals{Because: "the controller ignores the node's pods; it reports nothing, and the kubelet puts the annotation on only " +
			"when it starts with enableControllerAttachDetach: true"},
		Advice: "{change} set enableControllerAttachDetach to true in the node's kubelet configuration; {restart-kubelet}",
	})
	if holder, held := heldElsewhere(p.View, node, first.Volume); held {
		p.Suspect(&f, fmt.Sprintf("where it goes on once the volume has no VolumeAttachment on node %s", holder),
			fmt.Sprintf("the controller has known node %s with the annotation, and only waits until the volume has left the other node", node.Name))
	}
	for _, i := range ignored {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(i.Pod), Field: "spec.volumes", Value: string(i.Volume) + " has no VolumeAttachment"})
	}
	p.Report(f)
}
