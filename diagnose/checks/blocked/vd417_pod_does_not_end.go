package blocked

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/safetext"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var PodDoesNotEnd = check.Check{
	Code:        "VD417",
	Name:        "pod-does-not-end",
	Title:       "A pod is Terminating past its grace period, its containers run, and it keeps its volume",
	Severity:    finding.Warning,
	Needs:       check.AttachmentKinds(snapshot.Leases),
	OfNamespace: true,
	Never:       "force-delete the pod: its container goes on writing to the volume, which the controller may then attach elsewhere",
	Run:         runPodDoesNotEnd,
}

func runPodDoesNotEnd(p *check.Run) {
	for _, pod := range p.Snapshot.Pods {
		if pod.DeletionTimestamp == nil || reconcile.PodTerminated(pod) || !p.Lasted(*pod.DeletionTimestamp, facts.KillTakes) {
			continue // the timestamp is the end of the grace period
		}
		node := p.Snapshot.Node(facts.NodeOf(pod))
		if node == nil || reconcile.OutOfService(node) {
			continue
		}
		running := slices.DeleteFunc(slices.Clone(pod.Status.ContainerStatuses), func(c corev1.ContainerStatus) bool { return c.State.Running == nil })
		held := heldFor(p.View, pod)
		switch {
		case len(held) == 0 || len(running) == 0:
		case reconcile.NodeReady(node) && p.LeaseStale(facts.NodeName(node)):
			// Its kubelet is silent, and does not kill anything: nobody has noticed yet.
		case reconcile.NodeReady(node):
			// A kubelet that has just come back has not had the time to kill it.
			if back := facts.ReadyCondition(node).LastTransitionTime; back.IsZero() || p.Lasted(back, facts.KillTakes) {
				podDoesNotEnd(p, pod, running[0].Name, held)
			}
		case silent(p.View, node.Name) && !waitedFor(p.View, pod, held):
			leftOnSilentNode(p, pod, held[0])
		}
	}
}

// waitedFor reports whether somebody waits for a volume of the pod, or for the pod's name:
// node-lost-6min and sts-terminating-on-dead-node tell that.
func waitedFor(p *facts.View, pod *corev1.Pod, held []facts.Attachment) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "StatefulSet" ||
		slices.ContainsFunc(held, func(va facts.Attachment) bool { return p.Recreated(va) || len(p.KeptFrom(va.VolumeNode)) > 0 })
}

// leftOnSilentNode is about a pod for whose volume nobody waits yet: whoever comes will.
func leftOnSilentNode(p *check.Run, pod *corev1.Pod, va facts.Attachment) {
	node := p.Snapshot.Node(va.Node)
	p.Report(p.About(va, finding.Finding{
		Subject: facts.PodObject(pod), Pods: []string{facts.PodName(pod)}, Since: pod.DeletionTimestamp,
		Message: fmt.Sprintf("Pod %s stays Terminating on silent node %s and keeps volume %s", facts.PodName(pod), node.Name, p.ShortVolume(va.Volume)),
		Detail:  fmt.Sprintf("it has been Terminating for %s; no other pod waits for the volume", facts.Rounded(p.Age(*pod.DeletionTimestamp))),
		Cause:   "the node was lost, and its kubelet is the only one that may say that the containers have ended",
		Evidence: append([]finding.Evidence{
			{Object: "pod/" + facts.PodName(pod), Field: "metadata.deletionTimestamp", Value: facts.Stamp(*pod.DeletionTimestamp)},
			{Object: "node/" + node.Name, Field: "status.conditions[Ready]", Value: facts.ReadyText(node)},
			{Object: va.Object(), Field: "status.attached", Value: "true, not being deleted"},
		}, p.RenewedLease(va.Node)...),
		SelfHeals:      finding.SelfHeals{Because: "the pod ends once the kubelet returns, and else stays until the Node is deleted or the pod object is removed"},
		Advice:         fmt.Sprintf("bring node %s back, whose kubelet then ends the pod; or see its machine off for good, and taint the node out-of-service", node.Name),
		AdviceCommands: []string{safetext.Kubectl("describe", "node/"+node.Name)},
	}))
}

func podDoesNotEnd(p *check.Run, pod *corev1.Pod, container string, held []facts.Attachment) {
	va := held[0]
	for _, other := range held { // one that somebody waits for tells more
		if len(p.KeptFrom(other.VolumeNode)) > 0 {
			va = other
			break
		}
	}
	f := p.About(va, finding.Finding{
		Subject: facts.PodObject(pod), Pods: []string{facts.PodName(pod)}, Since: pod.DeletionTimestamp,
		Message: fmt.Sprintf("Pod %s does not end on node %s and keeps volume %s", facts.PodName(pod), va.Node, p.ShortVolume(va.Volume)),
		Detail: fmt.Sprintf("it should have ended %s ago, and container %s still runs there; the node is Ready",
			facts.Rounded(p.Age(*pod.DeletionTimestamp)), container),
		Cause: "the kubelet or the container runtime of the node does not get the container killed: a process in it hangs in the kernel, often on its volume, " +
			"or the runtime does not answer",
		Evidence: []finding.Evidence{
			{Object: "pod/" + facts.PodName(pod), Field: "metadata.deletionTimestamp", Value: facts.Stamp(*pod.DeletionTimestamp) + ", the end of its grace period"},
			{Object: "pod/" + facts.PodName(pod), Field: "status.containerStatuses", Value: "container " + container + " runs"},
			{Object: va.Object(), Field: "status.attached", Value: "true, not being deleted"},
		},
		SelfHeals: finding.SelfHeals{Because: "the kubelet goes on trying to kill it; the volume stays on the node until the container has ended"},
		Advice: fmt.Sprintf("on node %s find what keeps container %s: a process in state D (ps), and the logs of the kubelet and the container runtime for the pod; "+
			"if nothing ends it, {drain-node} and {reboot-node}", va.Node, container),
		AdviceCommands: []string{safetext.Kubectl("describe", "pod/"+pod.Name, "-n", pod.Namespace)},
	})
	if e := p.LastEvent(pod, func(e *corev1.Event) bool { return e.Reason == "FailedKillPod" || e.Reason == "FailedPreStopHook" }); e != nil {
		f.Said = facts.QuoteEvent(e)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "event/" + e.Namespace + "/" + e.Name, Field: "message", Value: e.Message})
	}
	if waiting := p.KeptFrom(va.VolumeNode); len(waiting) > 0 {
		if p.Lasted(*pod.DeletionTimestamp, facts.KillFails) {
			f.Severity = finding.Error
		}
		f.Pods = append(f.Pods, facts.PodNames(waiting)...)
		slices.Sort(f.Pods)
		facts.Also(&f, "pod %s waits for it on node %s", facts.PodName(waiting[0]), waiting[0].Spec.NodeName)
	}
	f.Cause = finding.Clauses(f.Cause, p.NamespaceLeaves(pod.Namespace))
	p.Report(f)
}
