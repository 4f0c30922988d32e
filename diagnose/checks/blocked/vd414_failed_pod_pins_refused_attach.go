package blocked

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var FailedPodPinsRefusedAttach = check.Check{
	Code:     "VD414",
	Name:     "failed-pod-pins-refused-attach",
	Title:    "A failed pod that never ran keeps an attach alive that the driver refuses",
	Severity: finding.Warning,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	OfDriver: true,
	Yields: []check.Yield{
		{To: "VD608", Key: refusedByLimit},
	},
	Never: "delete the VolumeAttachment in the pod's place: the failed pod keeps the volume in use",
	Run:   runFailedPodPinsRefusedAttach,
}

// refusedByLimit is the driver and the node, where the pod failed because of the node's attach
// limit.
func refusedByLimit(p *facts.View, f finding.Finding) string {
	if f.Subject.Kind == "Pod" {
		pod := p.Snapshot.Pod(types.NamespacedName{Namespace: f.Subject.Namespace, Name: f.Subject.Name})
		if pod == nil || !slices.Contains(p.PodsByRole().Refused[f.Node], pod) {
			return ""
		}
	}
	return check.OfDriverOnNode(p, f)
}

func runFailedPodPinsRefusedAttach(p *check.Run) {
	for _, va := range p.Attachments() {
		if va.Status.Attached || p.AttachError(va.VolumeAttachment) == nil || va.DeletionTimestamp != nil || !va.Ours() || !pinned(p.View, va) {
			continue
		}
		pods := p.EndedPods(va.VolumeNode)
		if ended, granted := facts.EndedSince(pods); p.Age(ended) >= granted {
			failedPodPins(p, va, pods, ended)
		}
	}
}

// pinned reports whether only the kubelet's list keeps the controller from detaching the volume,
// and the kubelet lists it only for pods that failed before their mount.
func pinned(p *facts.View, va facts.Attachment) bool {
	node, d := p.Snapshot.Node(va.Node), p.Plan.Decision(va.VolumeNode)
	if d == nil || d.Verb != reconcile.Wait || d.Reason != reconcile.StillMounted || !reconcile.NodeReady(node) || facts.Virtual(node) {
		return false
	}
	pods := p.EndedPods(va.VolumeNode)
	return len(pods) > 0 && !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !facts.NeverRan(pod) || pod.DeletionTimestamp != nil })
}

func failedPodPins(p *check.Run, va facts.Attachment, pods []*corev1.Pod, ended metav1.Time) {
	first, failure := pods[0], va.Status.AttachError
	p.Report(p.About(va, finding.Finding{
		Subject: facts.PodObject(first),
		Pods:    facts.PodNames(slices.Concat(pods, p.WaitingElsewhere(va.VolumeNode))),
		Since:   &ended,
		Message: fmt.Sprintf("Failed pod %s on node %s keeps the refused attach of volume %s going", facts.PodName(first), va.Node, p.ShortVolumeOf(va)),
		Detail:  "it failed before it ran and has not been deleted; the driver is asked again and again to attach the volume, and refuses",
		Said:    p.QuoteAttach(va.Spec.Attacher, failure, pods),
		Cause:   "the kubelet keeps a volume that it has not mounted for a pod until the pod object is gone, and reports it in use; the controller therefore never takes the attach back",
		Evidence: []finding.Evidence{
			{Object: "pod/" + facts.PodName(first), Field: "status", Value: string(first.Status.Phase) + " " + first.Status.Reason},
			facts.FailedAttach(va.VolumeAttachment, failure),
			{Object: "node/" + string(va.Node), Field: "status.volumesInUse", Value: "lists " + string(va.Volume)},
		},
		SelfHeals: finding.SelfHeals{Because: "its owner or a person has to delete the pod; until then the attach is tried again"},
		Advice: step.DeletePod.Of(facts.PodName(first)) + ": it never ran, and holds no data; the volume is then released within about a minute. The next pod may meet what the driver " +
			"rejects again",
	}))
}
