package blocked

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var SeLinuxLabelConflict = check.Check{
	Code:        "VD407",
	Name:        "selinux-label-conflict",
	Title:       "A pod waits because its volume is mounted, or would have to be, with another SELinux label",
	Severity:    finding.Error,
	Needs:       []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.CSIDrivers, snapshot.Events},
	OfNamespace: true,
	Never:       "make the pods privileged or SELinux permissive: that drops the isolation of the whole node",
	Run:         runSELinuxLabelConflict,
}

// seLinuxWords are the kubelet's messages for the three collisions of labels: with a pod that has
// the volume mounted, with one that is about to, and within the pod itself.
var seLinuxWords = []string{kubeletwords.LabelMounted, kubeletwords.LabelsCollide, kubeletwords.LabelsInPod}

// labelGrace is how long a pod with the old label may take to release the volume, as in an update
// that changes the label: its grace period, and an unmount. The kubelet repeats its event at each
// sync of the pod.
const labelGrace = facts.DefaultTerminationGrace + reconcile.CSITimeout + facts.PodResync + time.Minute

func runSELinuxLabelConflict(p *check.Run) {
	for _, pod := range p.PendingPods() {
		if p.Snapshot.Node(facts.NodeOf(pod)) == nil || reconcile.PodTerminated(pod) || !p.Lasted(facts.BoundAt(pod), labelGrace) {
			continue
		}
		if said := seLinuxWord(p.View, pod); said != nil {
			labelConflict(p, pod, said)
		}
	}
}

// seLinuxWord is the kubelet's last event about labels, where it is recent.
func seLinuxWord(p *facts.View, pod *corev1.Pod) *corev1.Event {
	return p.LastEvent(pod, func(e *corev1.Event) bool {
		return facts.ContainsAny(e.Message, seLinuxWords...) && e.Reason == "FailedMount" && p.Age(snapshot.EventTime(e)) < labelGrace
	})
}

func labelConflict(p *check.Run, pod *corev1.Pod, said *corev1.Event) {
	f := finding.Finding{
		Subject: facts.PodObject(pod),
		Node:    facts.NodeOf(pod),
		Pods:    facts.PodNames([]*corev1.Pod{pod}),
		Since:   new(facts.BoundAt(pod)),
		Evidence: []finding.Evidence{
			{Object: "pod/" + facts.PodName(pod), Field: "event " + said.Reason, Value: said.Message},
			{Object: "pod/" + facts.PodName(pod), Field: "SELinux label", Value: seLinuxLabels(pod)},
		},
	}
	rivals := p.Sharers(pod, "")
	for _, rival := range rivals {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(rival), Field: "SELinux label", Value: seLinuxLabels(rival)})
	}
	if facts.ContainsAny(said.Message, kubeletwords.LabelsInPod) {
		f.Message = fmt.Sprintf("Pod %s waits on node %s: its own containers have different SELinux labels", facts.PodName(pod), pod.Spec.NodeName)
		f.Detail = "they share a volume that is mounted with one label"
		f.Actor = kubeletwords.Nobody
		f.Cause = "the driver's volumes are mounted with the pod's label (seLinuxMount), and a mount has one label only"
		f.SelfHeals.Because = "the labels are the pod's own, and nothing changes them"
		f.Advice = "give all containers of the pod one seLinuxOptions.level, or {change} set seLinuxChangePolicy to Recursive in the pod, so that files are relabelled instead"
	} else {
		f.Message = fmt.Sprintf("Pod %s waits on node %s: another pod there has another SELinux label", facts.PodName(pod), pod.Spec.NodeName)
		f.Detail = "that pod has its volume mounted with that label"
		f.Actor = "the pod that uses it"
		if len(rivals) > 0 {
			f.Actor = "pod " + facts.PodName(rivals[0])
			f.Message = fmt.Sprintf("Pod %s waits on node %s: pod %s there has another SELinux label", facts.PodName(pod), pod.Spec.NodeName, facts.PodName(rivals[0]))
			f.Detail = fmt.Sprintf("pod %s has their volume mounted with that label", facts.PodName(rivals[0]))
		}
		f.Cause = "the driver's volumes are mounted with the pod's label (seLinuxMount), and pods with different labels cannot share such a mount on one node"
		f.SelfHeals.Because = "pods with the other label have to leave first; the kubelet mounts the volume once the last of them has left the node"
		f.Advice = "give both pods the same seLinuxOptions.level, or {change} set seLinuxChangePolicy to Recursive in both; or {final} let one of them run on another node, where the " +
			"volume's access mode allows that"
	}
	p.Report(f)
}

// seLinuxLabels are the labels in the pod's spec: its own, and those of containers that differ.
func seLinuxLabels(pod *corev1.Pod) string {
	var labels []string
	if s := pod.Spec.SecurityContext; s != nil && s.SELinuxOptions != nil {
		labels = append(labels, "pod "+seLinuxLabel(s.SELinuxOptions))
	}
	for c := range facts.Containers(pod) {
		if s := c.SecurityContext; s != nil && s.SELinuxOptions != nil {
			labels = append(labels, "container "+c.Name+" "+seLinuxLabel(s.SELinuxOptions))
		}
	}
	if len(labels) == 0 {
		return "none in its spec: the container runtime gives it one of its own"
	}
	return fmt.Sprint(labels)
}

func seLinuxLabel(o *corev1.SELinuxOptions) string {
	return fmt.Sprintf("%s:%s:%s:%s", o.User, o.Role, o.Type, o.Level)
}
