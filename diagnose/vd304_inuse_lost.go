package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var inuseLost = Check{
	Code:     "VD304",
	Name:     "inuse-lost",
	Title:    "A kubelet has ceased to report a volume in use with which a pod runs",
	Severity: Warning,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runInuseLost,
}

func runInuseLost(p *Pass) {
	byNode := p.attachmentsByNode()
	for _, node := range p.reportingNodes() {
		runs := func(pod *corev1.Pod, va attachment) bool {
			since := runningSince(pod)
			// A volume that was attached under a running pod was none that is attached
			// when the kubelet took it up, and it does not ask again.
			return pod.DeletionTimestamp == nil && !since.IsZero() && p.Age(since) >= kubeletReports && !since.Before(&va.CreationTimestamp)
		}
		if list := p.unlisted(node, byNode[node.Name], runs); len(list) > 0 {
			p.inuseLost(node, list)
		}
	}
}

// runningSince is the earliest start of a container that runs; zero where none
// does.
func runningSince(pod *corev1.Pod) metav1.Time {
	var first metav1.Time
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if r := c.State.Running; r != nil && !r.StartedAt.IsZero() && (first.IsZero() || r.StartedAt.Before(&first)) {
			first = r.StartedAt
		}
	}
	return first
}

// inuseLost makes one finding of the node: a kubelet that has lost one volume
// has mostly lost several.
func (p *Pass) inuseLost(node *corev1.Node, list []podVolume) {
	first, pods := list[0], podsOf(list)
	f := Finding{
		Subject: Object{Kind: "Node", Name: node.Name, UID: node.UID},
		Node:    nodeName(node),
		Pods:    podNames(pods),
		Message: fmt.Sprintf("Pod %s runs on node %s with volume %s, which the node's volumesInUse does not list: once the pod ends, the controller detaches "+
			"the volume without waiting for the unmount", podName(first.pod), node.Name, first.name),
		Cause: "the kubelet was restarted and no longer gets to the pod's volumes, or no longer gets its node's status written; or somebody else writes " +
			"the list",
		Evidence: []Evidence{{"node/" + node.Name, "status.volumesInUse", fmt.Sprintf("lists %v", node.Status.VolumesInUse)}},
		SelfHeals: SelfHeals{Because: "a kubelet lists its pods' volumes within 10 s, or at its next report of the status; this one has not for longer " +
			"than any of them"},
		Advice: fmt.Sprintf("do not drain node %s and do not delete the pod yet. Restart the node's kubelet and see the volume return to volumesInUse; "+
			"otherwise stop the program's writes before its pod ends", node.Name),
	}
	if p.heartbeatStale(node) {
		f.Cause = "the kubelet renews its lease, which keeps the node Ready, but its writes of the node's status fail"
		f.Evidence = append(f.Evidence, Evidence{"node/" + node.Name, "status.conditions[Ready].lastHeartbeatTime", stamp(readyCondition(node).LastHeartbeatTime)})
	}
	listed := true
	for _, v := range list {
		listed = listed && lists(node, v.volume)
		f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(v.pod), "status.containerStatuses",
			fmt.Sprintf("runs since %s with %s", stamp(runningSince(v.pod)), v.volume)})
	}
	if !listed {
		f.Evidence = append(f.Evidence, Evidence{"node/" + node.Name, "status.volumesAttached", "lists " + attachedList(node.Status.VolumesAttached)})
		f.Advice = fmt.Sprintf("do not drain node %s, do not delete the pod and do not restart the kubelet yet: volumesAttached lacks the volume as well. Have the "+
			"kube-controller-manager leader restarted, see it return to volumesAttached, and only then restart the node's kubelet", node.Name)
	}
	if len(pods) > 1 {
		f.Message += fmt.Sprintf("; so for %d pods there", len(pods))
	}
	p.Report(f)
}
