package diagnose

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var inuseNotReported = Check{
	Code:     "VD305",
	Name:     "inuse-not-reported",
	Title:    "A kubelet does not announce a volume in volumesInUse, and therefore never mounts it",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases, snapshot.Events,
	},
	Run: runInuseNotReported,
}

func runInuseNotReported(p *Pass) {
	byNode := p.attachmentsByNode()
	for _, node := range p.reportingNodes() {
		waits := func(pod *corev1.Pod, va attachment) bool {
			return lists(node, va.Volume) && len(pending([]*corev1.Pod{pod})) > 0 && p.Age(boundAt(pod)) >= kubeletReports && !p.kubeletObjects(pod)
		}
		if list := p.unlisted(node, byNode[node.Name], waits); len(list) > 0 {
			p.notReported(node, list)
		}
	}
}

// kubeletObjects says that the kubelet does not mean to mount one of the pod's
// volumes as they are, and has told the pod why.
func (p *Pass) kubeletObjects(pod *corev1.Pod) bool {
	return slices.ContainsFunc(p.Snapshot.EventsOf(pod.UID), func(e *corev1.Event) bool {
		return e.Reason == "FailedMount" && containsAny(e.Message, "error processing PVC", "failed to process volumes=[", "volumeMode", "SELinux",
			"was not created for pod", "no volume plugin matched") && !containsAny(e.Message, "failed to process volumes=[]")
	})
}

// notReported makes one finding of the node, whose kubelet is the one thing
// wrong.
func (p *Pass) notReported(node *corev1.Node, list []podVolume) {
	first, pods := list[0], podsOf(list)
	since := boundAt(first.pod)
	f := Finding{
		Subject: Object{Kind: "Node", Name: node.Name, UID: node.UID},
		Node:    nodeName(node),
		Pods:    podNames(pods),
		Since:   &since,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s: it is attached, but the kubelet has not announced it in the node's volumesInUse for %s, "+
			"and it mounts only what it has announced%s", podName(first.pod), node.Name, first.name, rounded(p.Age(since)), alike(pods)),
		Cause: "the kubelet writes its node's status, but does not get to the pod's volumes, or writes the status too seldom (nodeStatusUpdateFrequency)",
		Evidence: []Evidence{
			{"node/" + node.Name, "status.volumesInUse", fmt.Sprintf("lists %v", node.Status.VolumesInUse)},
			{"node/" + node.Name, "status.volumesAttached", "lists " + attachedList(node.Status.VolumesAttached)},
		},
		SelfHeals: SelfHeals{Because: "the kubelet announces a volume within 10 s, or at its next report of the status; it has had longer than any of them"},
		Advice: fmt.Sprintf("on node %s see the kubelet's log for \"Error updating node status\" and for the pod's name; mend what it says, or set "+
			"nodeStatusUpdateFrequency back to 10s and restart the kubelet. Do not write volumesInUse by hand: the kubelet overwrites it", node.Name),
	}
	switch c := readyCondition(node); {
	case p.heartbeatStale(node):
		f.Cause = "the kubelet renews its lease, which keeps the node Ready, but its writes of the node's status fail"
		f.Evidence = append(f.Evidence, Evidence{"node/" + node.Name, "status.conditions[Ready].lastHeartbeatTime", stamp(c.LastHeartbeatTime)})
	case first.pod.Status.StartTime == nil && len(first.pod.Status.ContainerStatuses) == 0:
		f.Cause = "the kubelet has not taken the pod up at all: it has written no status for it"
	}
	for _, v := range list {
		f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(v.pod), "spec.volumes", string(v.volume)})
	}
	p.Report(f)
}
