package attached

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

var TerminatedPodHoldsVolume = check.Check{
	Code:        "VD107",
	Name:        "terminated-pod-holds-volume",
	Title:       "A pod that has ended keeps its volume on the node until the pod is deleted",
	Severity:    finding.Warning,
	Needs:       check.AttachmentKinds(),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "delete the VolumeAttachment: the kubelet still has the volume in use",
	Run:         runTerminatedPodHoldsVolume,
}

// withoutKeepTerminated is the first release whose kubelet lacks the flag
// --keep-terminated-pod-volumes.
const withoutKeepTerminated facts.KubeletRelease = 31

func runTerminatedPodHoldsVolume(p *check.Run) {
	for _, va := range p.Attachments() {
		if !keptAfterUse(p.View, va) {
			continue
		}
		pods, why := heldByEnded(p.View, va.VolumeNode)
		if ended, granted := facts.EndedSince(pods); len(pods) > 0 && p.Lasted(ended, granted) {
			f := keptFinding(p.View, va)
			f.Since, f.Cause = &ended, why
			heldByPod(p, f, pods)
		}
	}
}

// keptAfterUse reports whether the volume is attached to a living node that reports it in use,
// although no pod there uses it.
func keptAfterUse(p *facts.View, va facts.Attachment) bool {
	if va.Ran {
		return false
	}
	node := p.Snapshot.Node(va.Node)
	return va.Holds() && va.Ours() && reconcile.NodeReady(node) && p.World.Managed.Has(va.Node) && !facts.Virtual(node) &&
		!reconcile.OutOfService(node) && p.InUse(node, va.Volume) &&
		!p.World.HasRunningPod(va.VolumeNode)
}

// heldByEnded are the ended pods whose volume the kubelet keeps, and why. Deleting them frees it.
func heldByEnded(p *facts.View, pair reconcile.VolumeNode) (pods []*corev1.Pod, why string) {
	pods = p.EndedPods(pair)
	if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }) {
		return nil, "" // being detached
	}
	node := p.Snapshot.Node(pair.Node)
	switch {
	case len(pods) == 0 || node == nil:
		return nil, ""
	case !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !facts.NeverRan(pod) }):
		return pods, "the pod failed before any of its containers ran; the kubelet keeps a volume that it has not mounted for a pod until the pod " +
			"object is gone, and reports it in use all the while"
	case node.Annotations[reconcile.KeepTerminatedAnnotation] == "true" &&
		(facts.ParseKubelet(node.Status.NodeInfo.KubeletVersion).Before(withoutKeepTerminated) || p.World.Desired.Find(pair) != nil):
		return pods, "the kubelet of the node runs with --keep-terminated-pod-volumes: it and the controller keep the volumes of a pod that has ended " +
			"until the pod is deleted"
	default:
		return nil, ""
	}
}

func heldByPod(p *check.Run, f finding.Finding, pods []*corev1.Pod) {
	names := facts.PodNames(pods)
	f.Message = fmt.Sprintf("Pod %s has ended and keeps volume %s on node %s", names[0], f.PersistentVolume, f.Node)
	ended := "it has failed and has not been deleted"
	if !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !facts.TellsEnd(pod) }) {
		ended = fmt.Sprintf("it ended %s ago and has not been deleted", facts.Rounded(p.Age(*f.Since)))
	}
	f.Detail = finding.Clauses(ended, f.Detail)
	if others := len(names) - 1; others == 1 {
		facts.Also(&f, "pod %s keeps it like it", names[1])
	} else if others > 1 {
		facts.Also(&f, "%d other pods keep it like it", others)
	}
	for _, pod := range pods {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(pod), Field: "status.phase", Value: string(pod.Status.Phase)})
	}
	if len(f.Pods) == 0 {
		f.Pods = names
	}
	f.SelfHeals = finding.SelfHeals{Because: "its owner or a person has to delete the pod; the kubelet waits for that, and the controller for the kubelet"}
	if slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !facts.NeverRan(pod) }) {
		f.Advice = step.Check.Of() + " {note} save the pod's log if you need it: it goes with the pod"
	}
	f.ByHand = step.DeletePod.Of(names...) + ": the controller then detaches the volume within about a minute"
	p.Report(f)
}
