package diagnose

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var seLinuxLabelConflict = Check{
	Code:     "VD407",
	Name:     "selinux-label-conflict",
	Title:    "A pod waits because its volume is mounted, or would have to be, with another SELinux label",
	Severity: Error,
	Needs:    []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.CSIDrivers, snapshot.Events},
	Run:      runSELinuxLabelConflict,
}

// seLinuxWords are the kubelet's for the three ways in which labels collide: with
// those of another pod that has the volume mounted, of another pod that is about
// to, and of the pod's own containers.
var seLinuxWords = []string{"with a different SELinux label", "conflicting SELinux labels of volume", "multiple SELinux labels found"}

// labelSettles is how long a pod with the old label may take to give the volume
// up, as in an update that changes the label: its grace, mostly 30 s, and an
// unmount. The kubelet repeats its word each time that it takes the pod up
// again, within about a minute and a half.
const labelSettles = 5 * time.Minute

func runSELinuxLabelConflict(p *Pass) {
	pods := p.pendingPods()
	longestFirst(pods)
	for _, pod := range pods {
		if p.Snapshot.Node(nodeOf(pod)) == nil || reconcile.PodTerminated(pod) || p.Age(boundAt(pod)) < labelSettles {
			continue
		}
		if said := p.seLinuxWord(pod); said != nil {
			p.labelConflict(pod, said)
		}
	}
}

// seLinuxWord is the kubelet's last word about labels, where it is recent.
func (p *Pass) seLinuxWord(pod *corev1.Pod) *corev1.Event {
	var last *corev1.Event
	for _, e := range p.Snapshot.EventsOf(pod.UID) {
		if containsAny(e.Message, seLinuxWords...) && e.Reason == "FailedMount" && p.Age(eventTime(e)) < labelSettles &&
			(last == nil || eventTime(e).After(eventTime(last).Time)) {
			last = e
		}
	}
	return last
}

func (p *Pass) labelConflict(pod *corev1.Pod, said *corev1.Event) {
	since := boundAt(pod)
	f := Finding{
		Subject: podObject(pod),
		Node:    nodeOf(pod),
		Pods:    podNames([]*corev1.Pod{pod}),
		Since:   &since,
		Evidence: []Evidence{
			{"pod/" + podName(pod), "event " + said.Reason, said.Message},
			{"pod/" + podName(pod), "SELinux label", seLinuxLabels(pod)},
		},
	}
	rivals := p.sharers(pod)
	for _, rival := range rivals {
		f.Evidence = append(f.Evidence, Evidence{"pod/" + podName(rival), "SELinux label", seLinuxLabels(rival)})
	}
	if containsAny(said.Message, "multiple SELinux labels found") {
		f.Message = fmt.Sprintf("Pod %s waits on node %s: its own containers have different SELinux labels and share a volume that is mounted with one",
			podName(pod), pod.Spec.NodeName)
		f.Cause = "the driver's volumes are mounted with the pod's label (seLinuxMount), and a mount has one label only"
		f.SelfHeals.Because = "the labels are the pod's own, and nothing changes them"
		f.Advice = "give all containers of the pod one seLinuxOptions.level, or set seLinuxChangePolicy: Recursive in the pod, so that files are relabelled instead"
	} else {
		f.Message = fmt.Sprintf("Pod %s waits on node %s: another pod there has its volume mounted with another SELinux label", podName(pod), pod.Spec.NodeName)
		if len(rivals) > 0 {
			f.Message = fmt.Sprintf("Pod %s waits on node %s: pod %s there has their volume mounted with another SELinux label",
				podName(pod), pod.Spec.NodeName, podName(rivals[0]))
		}
		f.Cause = "the driver's volumes are mounted with the pod's label (seLinuxMount), and pods with different labels cannot share such a mount on one node"
		f.SelfHeals.Because = "the kubelet mounts the volume as soon as the last pod with the other label has left the node, and not before"
		f.Advice = "give both pods the same seLinuxOptions.level, or set seLinuxChangePolicy: Recursive in both; or let one of them run on another node, where the " +
			"volume's access mode allows that"
	}
	p.Report(f)
}

// sharers are the other pods on the node that have a claim in common with the
// pod and may have it mounted.
func (p *Pass) sharers(pod *corev1.Pod) []*corev1.Pod {
	claims := func(q *corev1.Pod) []string {
		var names []string
		for i := range q.Spec.Volumes {
			if name := reconcile.ClaimName(q, &q.Spec.Volumes[i]); name != "" {
				names = append(names, q.Namespace+"/"+name)
			}
		}
		return names
	}
	own := claims(pod)
	return slices.DeleteFunc(slices.Clone(p.Snapshot.PodsOnNode(nodeOf(pod))), func(q *corev1.Pod) bool {
		return q == pod || !mounted(q) || !slices.ContainsFunc(claims(q), func(name string) bool { return slices.Contains(own, name) })
	})
}

// seLinuxLabels are the pod's label and those of its containers that differ from
// it, as far as its spec gives any.
func seLinuxLabels(pod *corev1.Pod) string {
	var labels []string
	if s := pod.Spec.SecurityContext; s != nil && s.SELinuxOptions != nil {
		labels = append(labels, "pod "+seLinuxLabel(s.SELinuxOptions))
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
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
