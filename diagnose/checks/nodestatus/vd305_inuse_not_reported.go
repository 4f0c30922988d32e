package nodestatus

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var InuseNotReported = check.Check{
	Code:        "VD305",
	Name:        "inuse-not-reported",
	Title:       "A kubelet does not announce a volume in volumesInUse, and therefore never mounts it",
	Severity:    finding.Error,
	Breaks:      check.Uses,
	Needs:       check.AttachmentKinds(snapshot.Leases, snapshot.Events),
	OfNamespace: true,
	OfDriver:    true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD306"}, Share: check.OnNode, Match: inUseListRewritten},
	},
	Never: "write volumesInUse by hand: the kubelet overwrites it",
	Run:   runInuseNotReported,
}

func runInuseNotReported(p *check.Run) {
	byNode := p.AttachmentsByNode()
	for _, node := range reportingNodes(p.View) {
		waits := func(pod *corev1.Pod, va facts.Attachment) bool {
			return p.Lists(node, va.Volume) && len(facts.Pending([]*corev1.Pod{pod})) > 0 && p.Lasted(facts.BoundAt(pod), facts.KubeletReports) && !kubeletObjects(p.View, pod)
		}
		if list := unlisted(p.View, node, byNode[node.Name], waits); len(list) > 0 {
			notReported(p, node, list)
		}
	}
}

// kubeletObjects reports whether the kubelet rejects a volume of the pod as it is, and has told
// the pod why.
func kubeletObjects(p *facts.View, pod *corev1.Pod) bool {
	return slices.ContainsFunc(p.EventsOf(pod), func(e *corev1.Event) bool {
		return e.Reason == "FailedMount" && facts.ContainsAny(e.Message, kubeletwords.ClaimFailed, kubeletwords.NotProcessed, kubeletwords.ClaimOfAnother,
			kubeletwords.OfVolumeMode, kubeletwords.OfSELinux, kubeletwords.NoPlugin) &&
			!facts.ContainsAny(e.Message, kubeletwords.AllProcessed)
	})
}

// notReported makes one finding about the node: only its kubelet is at fault.
func notReported(p *check.Run, node *corev1.Node, list []facts.PodVolume) {
	first, pods := list[0], facts.PodsOf(list)
	since := facts.BoundAt(first.Pod)
	f := facts.AboutNode(node, finding.Finding{
		Pods:    facts.PodNames(pods),
		Since:   &since,
		Message: fmt.Sprintf("Pod %s waits on node %s, whose kubelet does not announce volume %s", facts.PodName(first.Pod), node.Name, first.Name),
		Detail: finding.Clauses(fmt.Sprintf("the volume is attached, but the kubelet has not announced it in the node's volumesInUse for %s, and it mounts only what "+
			"it has announced", facts.Rounded(p.Age(since))), facts.Alike(pods)),
		Cause: "the kubelet writes its node's status, but does not get to the pod's volumes, or writes the status too seldom (nodeStatusUpdateFrequency)",
		Evidence: []finding.Evidence{
			{Object: "node/" + node.Name, Field: "status.volumesInUse", Value: fmt.Sprintf("lists %v", node.Status.VolumesInUse)},
			{Object: "node/" + node.Name, Field: "status.volumesAttached", Value: "lists " + facts.AttachedList(node.Status.VolumesAttached)},
		},
		SelfHeals: finding.SelfHeals{Because: "the kubelet has had time to announce it; a kubelet announces a volume within 10 s, or at its next report of the status"},
		Advice: fmt.Sprintf("on node %s read the kubelet's log for \"Error updating node status\" and for the pod's name; {fix} fix what it reports, or {change} set "+
			"nodeStatusUpdateFrequency back to 10s; {restart-kubelet}", node.Name),
	})
	switch c := facts.ReadyCondition(node); {
	case p.HeartbeatStale(node):
		f.Cause = "the kubelet renews its lease, which keeps the node Ready, but its writes of the node's status fail"
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + node.Name, Field: "status.conditions[Ready].lastHeartbeatTime", Value: facts.Stamp(c.LastHeartbeatTime)})
		f.Advice = "{check} ask the API server for the same write in the kubelet's name, in a dry run (explain VD305 has the line): what refuses it says so, and that proves it; " +
			"{change} have that webhook, policy or right corrected. Where nothing refuses it, the kubelet's log on node " + node.Name + " says why (\"Error updating node status\")"
	case first.Pod.Status.StartTime == nil && len(first.Pod.Status.ContainerStatuses) == 0:
		f.Cause = "the kubelet has not taken the pod up at all: it has written no status for it"
	}
	for _, v := range list {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(v.Pod), Field: "spec.volumes", Value: string(v.Volume)})
	}
	p.Report(f)
}
