package resolution

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

var TopologyMismatch = check.Check{
	Code:        "VD506",
	Name:        "topology-mismatch",
	Title:       "A pod waits on a node where its volume cannot be",
	Severity:    finding.Error,
	Needs:       check.AttachmentKinds(),
	OfNamespace: true,
	PodAlone:    true,
	Never:       "relabel the node to a zone in which it is not: more pods would get stuck there",
	Run:         runTopologyMismatch,
}

func runTopologyMismatch(p *check.Run) {
	for _, node := range p.Snapshot.Nodes {
		// The labels of a new node come with its drivers.
		if p.Age(node.CreationTimestamp) < facts.RegistrationGrace || facts.Virtual(node) {
			continue
		}
		for _, pod := range p.PendingOn(facts.NodeName(node)) {
			if reconcile.PodTerminated(pod) || !p.Lasted(facts.BoundAt(pod), facts.MountFails) {
				continue
			}
			for i := range pod.Spec.Volumes {
				misplaced(p, node, pod, &pod.Spec.Volumes[i])
			}
		}
	}
}

func misplaced(p *check.Run, node *corev1.Node, pod *corev1.Pod, v *corev1.Volume) {
	pv := p.BoundVolume(pod, v)
	if pv == nil || !facts.Referenced(pod, v.Name) {
		return
	}
	name, err := p.World.VolumeName(pv)
	if err != nil {
		name = ""
	}
	f := finding.Finding{
		Subject:          facts.PodObject(pod),
		Volume:           name,
		Node:             facts.NodeName(node),
		PersistentVolume: pv.Name,
		Pods:             facts.PodNames([]*corev1.Pod{pod}),
		Since:            new(facts.BoundAt(pod)),
		Cause:            "the pod was bound past the scheduler (a nodeName in its template), or the node's labels have changed since",
		SelfHeals:        finding.SelfHeals{Because: "a pod that has a node keeps it, and the volume does not move"},
		Advice: "take the nodeName out of the pod's template, or give the node its labels back, then delete the pod: it has not started, and its " +
			"successor is scheduled where the volume is",
	}
	if terms := facts.UnmetAffinity(pv, node); terms != "" {
		f.Message = fmt.Sprintf("Pod %s waits on node %s for volume %s, which can be used only on nodes with %s", facts.PodName(pod), node.Name, pv.Name, terms)
		f.Evidence = []finding.Evidence{
			{Object: "persistentvolume/" + pv.Name, Field: "spec.nodeAffinity.required", Value: terms},
			{Object: "node/" + node.Name, Field: "metadata.labels", Value: ownLabels(pv, node)},
		}
		p.Report(f)
		return
	}
	va := p.Snapshot.VolumeAttachment(facts.AttachmentName(reconcile.VolumeNode{Volume: name, Node: facts.NodeName(node)}))
	if pv.Spec.NodeAffinity != nil || va == nil || va.Status.Attached || va.DeletionTimestamp != nil ||
		!p.StillRefused(p.AttachError(va)) || !otherZone(va.Status.AttachError.Message) {
		return
	}
	failure := va.Status.AttachError
	f.VolumeAttachment = va.Name
	f.Message = fmt.Sprintf("Pod %s waits on node %s for volume %s, which the driver says is in another zone: %q", facts.PodName(pod), node.Name, pv.Name, failure.Message)
	f.Cause = "the volume does not say where it is (it has no nodeAffinity), so that the scheduler could not know"
	f.Evidence = []finding.Evidence{
		{Object: "volumeattachment/" + va.Name, Field: "status.attachError", Value: fmt.Sprintf("%s at %s", failure.Message, facts.Stamp(failure.Time))},
		{Object: "persistentvolume/" + pv.Name, Field: "spec.nodeAffinity", Value: "none"},
	}
	f.Advice = "keep the pod to nodes of the volume's zone (node affinity in its template), then delete the pod: it has not started; give the volume a " +
		"nodeAffinity when you recreate it"
	p.Report(f)
}

// ownLabels are the node's labels of the keys that the volume asks for.
func ownLabels(pv *corev1.PersistentVolume, node *corev1.Node) string {
	var labels []string
	seen := map[string]bool{}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, r := range term.MatchExpressions {
			if seen[r.Key] {
				continue
			}
			seen[r.Key] = true
			if value, ok := node.Labels[r.Key]; ok {
				labels = append(labels, r.Key+"="+value)
			} else {
				labels = append(labels, r.Key+" is missing")
			}
		}
	}
	return cmp.Or(strings.Join(labels, ", "), "none that the volume asks for")
}

// otherZone knows how drivers say that volume and node are not in one zone. A
// zone is part of many a resource's name: the word alone says nothing.
func otherZone(message string) bool {
	return facts.ContainsAny(message, "ZoneMismatch", "not in the same availability zone", "not in the same zone", "different availability zone",
		"different zone", "zone mismatch", "zones do not match")
}
