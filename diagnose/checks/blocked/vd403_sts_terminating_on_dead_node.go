package blocked

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var StsTerminatingOnDeadNode = check.Check{
	Code:        "VD403",
	Name:        "sts-terminating-on-dead-node",
	Title:       "A StatefulSet's pod is Terminating on a node that is silent, and gets no replacement",
	Severity:    finding.Error,
	Breaks:      check.Wants,
	Needs:       check.AttachmentKinds(snapshot.Leases),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "delete the VolumeAttachment or force-delete the pod: data loss if the node still writes",
	Run:         runSTSTerminatingOnDeadNode,
}

func runSTSTerminatingOnDeadNode(p *check.Run) {
	for _, pod := range p.Snapshot.Pods {
		if pod.DeletionTimestamp == nil || facts.GivenUp(pod) || !facts.ControlledBy(pod, "StatefulSet") {
			continue
		}
		if !p.Lasted(p.LostPodSince(pod), facts.LostPodWarns) || !silent(p.View, pod.Spec.NodeName) {
			continue
		}
		// va-recreated-on-dead-node says more about a recreated attachment, and node-lost-6min
		// about one that pods elsewhere wait for.
		told := func(va facts.Attachment) bool { return p.RecreatedOnLost(va) || len(p.KeptFrom(va.VolumeNode)) > 0 }
		held := heldFor(p.View, pod)
		if (len(held) > 0 || reconcile.PodTerminated(pod)) && !slices.ContainsFunc(held, told) {
			terminatingOnDeadNode(p, pod, metav1.GetControllerOf(pod).Name, held)
		}
	}
}

// lastSaid is the kubelet's last report about the pod's containers.
func lastSaid(pod *corev1.Pod) string {
	if reconcile.PodTerminated(pod) {
		return "no container counted as running when its kubelet was last heard of"
	}
	return "a container counts as running"
}

// silent reports whether the node's kubelet has been silent for facts.RebootTakes. A pod of a missing
// node, or of one with the out-of-service taint, goes by itself.
func silent(p *facts.View, name string) bool {
	node := p.Snapshot.Node(types.NodeName(name))
	return node != nil && !reconcile.OutOfService(node) && lostForLong(p, node)
}

func lostForLong(p *facts.View, node *corev1.Node) bool {
	c := facts.ReadyCondition(node)
	return c != nil && c.Status == corev1.ConditionUnknown && p.Lost(node) && p.Lasted(c.LastTransitionTime, facts.RebootTakes)
}

// heldFor are the attachments of the pod's volumes to its node.
func heldFor(p *facts.View, pod *corev1.Pod) []facts.Attachment {
	var held []facts.Attachment
	for i := range pod.Spec.Volumes {
		volume, _, err := p.World.PodVolume(pod, &pod.Spec.Volumes[i])
		if err != nil {
			continue
		}
		pair := reconcile.VolumeNode{Volume: volume, Node: facts.NodeOf(pod)}
		for _, va := range p.World.Attachments(pair) {
			if facts.Holds(va) {
				held = append(held, facts.Attachment{VolumeAttachment: va, VolumeNode: pair})
			}
		}
	}
	return held
}

func terminatingOnDeadNode(p *check.Run, pod *corev1.Pod, statefulSet string, held []facts.Attachment) {
	node := p.Snapshot.Node(facts.NodeOf(pod))
	f, volume := keeps(p.View, finding.Finding{
		Subject: facts.PodObject(pod),
		Pods:    facts.PodNames([]*corev1.Pod{pod}),
		Since:   new(facts.EndAsked(pod)),
		Message: fmt.Sprintf("Pod %s of StatefulSet %s stays Terminating on node %s, which is silent", facts.PodName(pod), statefulSet, node.Name),
		Node:    facts.NodeName(node),
		Cause:   "the node was lost, and its kubelet is the only one that may say that the containers have ended",
		Evidence: append([]finding.Evidence{
			{Object: "pod/" + facts.PodName(pod), Field: "metadata.deletionTimestamp", Value: facts.Stamp(*pod.DeletionTimestamp) + endOfGrace},
			{Object: "pod/" + facts.PodName(pod), Field: "status.containerStatuses", Value: lastSaid(pod)},
			{Object: "node/" + node.Name, Field: "status.conditions[Ready]", Value: facts.ReadyText(node)},
		}, p.RenewedLease(facts.NodeName(node))...),
		SelfHeals: finding.SelfHeals{Because: "nothing ends the pod while its node is silent; the pod stays until the kubelet returns, the Node is deleted or the pod object is removed, and only then does the controller " +
			"begin to count its 6 min"},
		ByHand:         "{power-off}, or see it off at the provider; {taint-node}",
		AdviceCommands: []string{facts.TaintOutOfService(node.Name)},
	}, pod, held)
	if volume == "" {
		return // no data outlives the pod
	}
	f.Detail = fmt.Sprintf("it has been Terminating for %s; the StatefulSet makes no other pod of its name", facts.Rounded(p.Age(*f.Since)))
	f.Cause = finding.Clauses(f.Cause, facts.ShutDownClause(node))
	if len(held) == 0 {
		f.Never = "force-delete the pod: its containers may run on, on a machine that is only cut off"
	} else {
		f.Detail = fmt.Sprintf("it has been Terminating for %s and keeps volume %s; the StatefulSet makes no other pod of its name", facts.Rounded(p.Age(*f.Since)), volume)
	}
	if reconcile.PodTerminated(pod) {
		f.Cause = "the node was lost, and its kubelet is the only one that may remove the pod object"
		f.SelfHeals.Because = "nothing ends the pod while its node is silent; the pod stays until the kubelet returns, the Node is deleted or the pod object is removed"
	}
	for i, va := range held {
		if i == 0 {
			continue // keeps has named it
		}
		f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "status.attached", Value: fmt.Sprintf("true for volume %s, not being deleted", p.ShortVolumeOf(va))})
	}
	f.Severity = p.LostPodSeverity(p.LostPodSince(pod))
	if len(pod.Finalizers) > 0 {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(pod), Field: "metadata.finalizers", Value: fmt.Sprint(pod.Finalizers)})
	}
	p.Report(f)
}
