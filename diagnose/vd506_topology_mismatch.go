package diagnose

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var topologyMismatch = Check{
	Code:     "VD506",
	Name:     "topology-mismatch",
	Title:    "A pod waits on a node where its volume cannot be",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers,
	},
	Run: runTopologyMismatch,
}

func runTopologyMismatch(p *Pass) {
	for _, node := range p.Snapshot.Nodes {
		// The labels of a new node come with its drivers.
		if p.Age(node.CreationTimestamp) < registrationSettles || virtual(node) {
			continue
		}
		pods := p.pendingOn(nodeName(node))
		longestFirst(pods)
		for _, pod := range pods {
			if reconcile.PodTerminated(pod) || p.Age(boundAt(pod)) < registrationSettles {
				continue
			}
			for i := range pod.Spec.Volumes {
				p.misplaced(node, pod, &pod.Spec.Volumes[i])
			}
		}
	}
}

func (p *Pass) misplaced(node *corev1.Node, pod *corev1.Pod, v *corev1.Volume) {
	pv := p.boundVolume(pod, v)
	if pv == nil {
		return
	}
	name, err := p.World.VolumeName(pv)
	if err != nil {
		name = ""
	}
	since := boundAt(pod)
	f := Finding{
		Subject:          podObject(pod),
		Volume:           name,
		Node:             nodeName(node),
		PersistentVolume: pv.Name,
		Pods:             podNames([]*corev1.Pod{pod}),
		Since:            &since,
		Cause:            "the pod was bound past the scheduler (a nodeName in its template), or the node's labels have changed since",
		SelfHeals:        SelfHeals{Because: "a pod that has a node keeps it, and the volume does not move"},
		Advice: "take the nodeName out of the pod's template, or give the node its labels back, then delete the pod: it has not started, and its " +
			"successor is scheduled where the volume is",
	}
	if terms := unmet(pv, node); terms != "" {
		f.Message = fmt.Sprintf("Pod %s waits on node %s for volume %s, which can be used only on nodes with %s", podName(pod), node.Name, pv.Name, terms)
		f.Evidence = []Evidence{
			{"persistentvolume/" + pv.Name, "spec.nodeAffinity.required", terms},
			{"node/" + node.Name, "metadata.labels", ownLabels(pv, node)},
		}
		p.Report(f)
		return
	}
	va := p.Snapshot.VolumeAttachment(attachmentName(reconcile.VolumeNode{Volume: name, Node: nodeName(node)}))
	if pv.Spec.NodeAffinity != nil || va == nil || va.Status.Attached || va.Status.AttachError == nil || va.DeletionTimestamp != nil ||
		p.Age(va.Status.AttachError.Time) > attacherRetries || !otherZone(va.Status.AttachError.Message) {
		return
	}
	failure := va.Status.AttachError
	f.VolumeAttachment = va.Name
	f.Message = fmt.Sprintf("Pod %s waits on node %s for volume %s, which the driver says is in another zone: %q", podName(pod), node.Name, pv.Name, failure.Message)
	f.Cause = "the volume does not say where it is (it has no nodeAffinity), so that the scheduler could not know"
	f.Evidence = []Evidence{
		{"volumeattachment/" + va.Name, "status.attachError", fmt.Sprintf("%s at %s", failure.Message, stamp(failure.Time))},
		{"persistentvolume/" + pv.Name, "spec.nodeAffinity", "none"},
	}
	f.Advice = "keep the pod to nodes of the volume's zone (node affinity in its template), then delete it: it has not started; give the volume a " +
		"nodeAffinity when it is next made anew"
	p.Report(f)
}

// unmet is what the volume asks of a node, if this one does not have it.
func unmet(pv *corev1.PersistentVolume, node *corev1.Node) string {
	if pv.Spec.NodeAffinity == nil || pv.Spec.NodeAffinity.Required == nil {
		return ""
	}
	selector, err := nodeaffinity.NewNodeSelector(pv.Spec.NodeAffinity.Required)
	if err != nil || selector.Match(node) {
		return "" // one that cannot be read proves nothing
	}
	text := ""
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		if text != "" {
			text += " or "
		}
		text += termText(term)
	}
	return text
}

func termText(term corev1.NodeSelectorTerm) string {
	text := ""
	for i, r := range append(append([]corev1.NodeSelectorRequirement{}, term.MatchExpressions...), term.MatchFields...) {
		if i > 0 {
			text += ", "
		}
		text += r.Key + " " + string(r.Operator)
		if len(r.Values) > 0 {
			text += fmt.Sprintf(" %v", r.Values)
		}
	}
	return text
}

// ownLabels are the node's labels of the keys that the volume asks for.
func ownLabels(pv *corev1.PersistentVolume, node *corev1.Node) string {
	text := ""
	seen := map[string]bool{}
	for _, term := range pv.Spec.NodeAffinity.Required.NodeSelectorTerms {
		for _, r := range term.MatchExpressions {
			if seen[r.Key] {
				continue
			}
			seen[r.Key] = true
			if text != "" {
				text += ", "
			}
			if value, ok := node.Labels[r.Key]; ok {
				text += r.Key + "=" + value
			} else {
				text += r.Key + " is missing"
			}
		}
	}
	if text == "" {
		return "none that the volume asks for"
	}
	return text
}

// otherZone knows how drivers say that volume and node are not in one zone. A
// zone is part of many a resource's name: the word alone says nothing.
func otherZone(message string) bool {
	return containsAny(message, "ZoneMismatch", "not in the same availability zone", "not in the same zone", "different availability zone",
		"different zone", "zone mismatch", "zones do not match")
}
