package nodestatus

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var InuseLost = check.Check{
	Code:     "VD304",
	Name:     "inuse-lost",
	Title:    "A kubelet no longer reports a volume in use with which a pod runs",
	Severity: finding.Warning,
	Breaks:   check.Uses,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	OfDriver: true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD306"}, Share: check.OnNode, Match: inUseListRewritten},
	},
	Run: runInuseLost,
}

func runInuseLost(p *check.Run) {
	byNode := p.AttachmentsByNode()
	for _, node := range reportingNodes(p.View) {
		runs := func(pod *corev1.Pod, va facts.Attachment) bool {
			since := facts.RunningSince(pod)
			// A volume that was attached later, under a running pod, counted as not attachable
			// when the kubelet saw the pod, and the kubelet does not ask again.
			return pod.DeletionTimestamp == nil && !since.IsZero() && p.Age(since) >= facts.KubeletReports && !since.Before(&va.CreationTimestamp)
		}
		if list := unlisted(p.View, node, byNode[node.Name], runs); len(list) > 0 {
			inuseLost(p, node, list)
		}
	}
}

// inuseLost makes one finding about the node: a kubelet that has lost one volume has mostly lost
// several.
func inuseLost(p *check.Run, node *corev1.Node, list []facts.PodVolume) {
	first, pods := list[0], facts.PodsOf(list)
	f := facts.AboutNode(node, finding.Finding{
		Pods:    facts.PodNames(pods),
		Message: fmt.Sprintf("Pod %s runs on node %s, whose volumesInUse lacks its volume %s", facts.PodName(first.Pod), node.Name, first.Name),
		Detail:  "once the pod ends, the controller detaches the volume without waiting for the unmount",
		Cause: "the kubelet was restarted and no longer gets to the pod's volumes, or no longer gets its node's status written; or somebody else writes " +
			"the list",
		Evidence:  []finding.Evidence{{Object: "node/" + node.Name, Field: "status.volumesInUse", Value: fmt.Sprintf("lists %v", node.Status.VolumesInUse)}},
		SelfHeals: finding.SelfHeals{Because: "the kubelet has had time to list it; a kubelet lists a volume within 10 s, or at its next report of the status"},
		Advice:    fmt.Sprintf("{restart-kubelet %s} and see the volume return to volumesInUse; if it does not, find what else writes that list, and {final} stop it before the pod ends", node.Name),
		Never:     "drain the node or delete the pod before that: the disk would be detached under the mount",
	})
	if p.HeartbeatStale(node) {
		f.Cause = "the kubelet renews its lease, which keeps the node Ready, but its writes of the node's status fail"
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "status.conditions[Ready].lastHeartbeatTime", Value: facts.Stamp(facts.ReadyCondition(node).LastHeartbeatTime)})
	}
	listed := true
	for _, v := range list {
		listed = listed && p.Lists(node, v.Volume)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(v.Pod), Field: "status.containerStatuses",
			Value: fmt.Sprintf("runs since %s with %s", facts.Stamp(facts.RunningSince(v.Pod)), v.Volume)})
	}
	if !listed {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "status.volumesAttached", Value: "lists " + facts.AttachedList(node.Status.VolumesAttached)})
		f.Advice = fmt.Sprintf("{restart-kube-controller-manager}, and see the volume return to volumesAttached; with the volume back there, {restart-kubelet %s}", node.Name)
		f.Never = "drain the node, delete the pod or restart the kubelet before that: volumesAttached lacks the volume as well"
	}
	if len(pods) > 1 {
		facts.Also(&f, "it lacks volumes of %d pods there", len(pods))
	}
	p.Report(f)
}
