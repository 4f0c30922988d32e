// Package nodestatus has the checks about nodes whose volumesAttached or volumesInUse is wrong.
package nodestatus

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var InuseNotAttached = check.Check{
	Code:        "VD301",
	Name:        "inuse-not-attached",
	Title:       "The kubelet waits for an entry in volumesAttached that the controller will not write",
	Severity:    finding.Error,
	Needs:       check.AttachmentKinds(snapshot.Leases),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "delete the VolumeAttachment: the driver would detach the pod's volume",
	Run:         runInuseNotAttached,
}

func runInuseNotAttached(p *check.Run) {
	if p.ControllerJustStarted() {
		return // a controller that starts takes over the VolumeAttachment
	}
	for _, node := range p.Snapshot.Nodes {
		if !reconcile.NodeReady(node) {
			continue
		}
		for _, volume := range p.UnlistedInUse(node) {
			if !p.UnderOldName(node, volume) {
				inuseNotAttached(p, node, volume)
			}
		}
	}
}

func inuseNotAttached(p *check.Run, node *corev1.Node, volume corev1.UniqueVolumeName) {
	pair := reconcile.VolumeNode{Volume: volume, Node: facts.NodeName(node)}
	wanted, actual := p.World.Desired.Find(pair), p.World.Actual.Find(pair)
	if wanted == nil || actual == nil || actual.Attachment == nil {
		return
	}
	va := actual.Attachment
	driver, handle, ok := wanted.Spec.CSI()
	if !ok || va.Name != reconcile.VolumeAttachmentName(handle, driver, pair.Node) ||
		!va.Status.Attached || va.DeletionTimestamp != nil {
		return // an attach or a detach is under way, or another check reports it
	}
	if va.CreationTimestamp.Before(&node.CreationTimestamp) && emptied(node, p.AttachmentsByNode()[node.Name]) {
		return // volumesattached-wiped; or another machine has the name, and the volume may not be attached here
	}
	if p.OneNode(volume) && slices.ContainsFunc(p.AttachmentsOf(volume), func(other facts.Attachment) bool {
		return other.Node != pair.Node && other.Holds() && reconcile.NodeReady(p.Snapshot.Node(other.Node)) && !p.Forgotten(other.VolumeNode)
	}) {
		return // silent-double-use, later two-vas-one-rwo: the entry would make a second writer
	}
	pods := slices.DeleteFunc(p.WantingPods(wanted), func(pod *corev1.Pod) bool {
		return pod.DeletionTimestamp != nil || !facts.Started(pod) && !p.ContainersUse(pod, volume)
	})
	if len(pods) == 0 {
		return
	}
	// A waiting pod comes before a running one. The subject must not depend on what could be
	// read, so the pod's age is checked only after the choice.
	waitingFirst(pods)
	pod := pods[0]
	pods = slices.DeleteFunc(pods, func(pod *corev1.Pod) bool { return mayStillBeReported(p.View, pod, va.CreationTimestamp) })
	if !slices.Contains(pods, pod) {
		return
	}
	own := facts.Attachment{VolumeAttachment: va, VolumeNode: pair}
	lost := p.LostEntry(node, own, pod)
	f := p.About(own, finding.Finding{
		Subject: facts.PodObject(pod),
		Pods:    facts.PodNames(pods),
		Evidence: []finding.Evidence{
			{Object: "node/" + node.Name, Field: "status.volumesInUse", Value: string(volume)},
			{Object: "node/" + node.Name, Field: "status.volumesAttached", Value: "lacks it; lists " + facts.AttachedList(node.Status.VolumesAttached)},
			{Object: "volumeattachment/" + va.Name, Field: "status.attached", Value: "true, not being deleted"},
		},
		SelfHeals: lost.Heals(),
		Advice:    lost.Advice(node),
		ByHand:    "{final} move the pod: delete it, and let it return once its VolumeAttachment is gone",
	})
	nameLostEntryCause(p, &f, node, lost)
	if _, at := facts.VolumesAttachedWriter(node); !at.IsZero() {
		f.Since = &at
	}
	switch proven := p.MountsProven(pod, facts.InOrder(p.EventsOf(pod))); {
	case slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !facts.Started(pod) && pastList(p.View, pod, f.PersistentVolume) }):
		f.Severity, f.Pods = finding.Info, nil // not what the pod waits for
		f.Message = fmt.Sprintf("Pod %s waits for the mount on node %s, whose volumesAttached has lost volume %s", facts.PodName(pod), node.Name, f.PersistentVolume)
		f.Detail = "the kubelet tries the mount, so that it has found the entry before; it looks for it again only after a restart"
	case facts.Started(pod):
		f.Severity = finding.Warning
		f.Message = fmt.Sprintf("Pod %s runs on node %s, whose volumesAttached has lost volume %s", facts.PodName(pod), node.Name, f.PersistentVolume)
		f.Detail = "a kubelet that restarts now would no longer protect the mount"
	case proven.Yes:
		f.Severity = finding.Warning
		f.Message = fmt.Sprintf("Pod %s has volume %s mounted on node %s, whose volumesAttached has lost it", facts.PodName(pod), f.PersistentVolume, node.Name)
		f.Detail = proven.How + "; a kubelet that restarts now would no longer protect the mount"
	case !p.Snapshot.CompleteIn(snapshot.Events, pod.Namespace):
		f.Severity, f.Pods, f.SelfHeals.Will, f.SelfHeals.Unknown = finding.Info, nil, false, true
		f.Message = fmt.Sprintf("Pod %s may wait on node %s, whose volumesAttached has lost volume %s", facts.PodName(pod), node.Name, f.PersistentVolume)
		f.Detail = "the volume is attached; not all events could be read, and one may show that the kubelet has found the entry before, and mounts the volume"
	default:
		f.Since = new(facts.BoundAt(pod))
		f.Message = fmt.Sprintf("Pod %s waits on node %s, whose volumesAttached has lost volume %s", facts.PodName(pod), node.Name, f.PersistentVolume)
		f.Detail = "the volume is attached, and the kubelet mounts only what volumesAttached lists"
	}
	p.Report(f)
}

// pastList reports whether the kubelet, which fails to mount the pod's volume now, has found it in
// volumesAttached. It looks for the entry before the first step of the mount, and again only after
// a restart (waitForVolumeAttach, pkg/kubelet/volumemanager/reconciler).
func pastList(p *facts.View, pod *corev1.Pod, volume string) bool {
	return slices.ContainsFunc(p.MountFailures(pod, volume), func(f facts.MountFailure) bool {
		return !strings.HasPrefix(f.Step, "AttachVolume") && p.Age(snapshot.EventTime(f.Event)) <= facts.MountRetries
	})
}

// mayStillBeReported reports whether the controller may only be late to report the volume for the
// pod.
func mayStillBeReported(p *facts.View, pod *corev1.Pod, attachmentMade metav1.Time) bool {
	bound := facts.BoundAt(pod)
	// The controller may be in its back-off. After a burst its events are far apart: the last one
	// need not be about the last attach that failed.
	if failed := lastAttachFailure(p, pod); !failed.IsZero() && (p.Age(failed) <= facts.AttachGrace || !p.Lasted(failed, facts.EventRepeats+facts.AttachGrace)) {
		return true
	}
	if !p.Snapshot.Complete(snapshot.Events) {
		return !p.Lasted(facts.Latest(bound, attachmentMade), facts.AttachGraceUnseen)
	}
	// It may also be in the back-off of an attach that failed for an earlier pod with the volume.
	return !p.Lasted(facts.Latest(bound, attachmentMade), facts.AttachGrace)
}

// nameLostEntryCause adds how the entry may have been lost, as far as the node and the release
// show.
func nameLostEntryCause(p *check.Run, f *finding.Finding, node *corev1.Node, lost facts.LostEntry) {
	bug, fixedIn := lost.Bug(p.Snapshot.Source.ServerVersion)
	switch _, at := facts.VolumesAttachedWriter(node); {
	case lost.Writer != "":
		f.Cause = fmt.Sprintf("status.volumesAttached was last written by %q at %s, not by the controller, which does not notice such a change",
			lost.Writer, facts.Stamp(at))
		return
	case lost.LeftOut != "":
		f.Cause = fmt.Sprintf("the controller has written the list since, with volume %s, and has left this one out", p.ShortVolume(lost.LeftOut))
	case bug == nil:
		f.Cause = "the volume was taken off the list and put back faster than the controller's cache followed, so that its second patch was empty " +
			"(kubernetes issue 122413), or something else rewrote the node's status"
		if lost.Forgets() {
			f.Cause += ", or the controller, of a release that is not known, has the bug of kubernetes issue 72181 or 111000"
		}
	}
	if bug != nil {
		check.NameBug(f, reconcile.ControllerManager, bug.Issue, bug.Does, fixedIn)
	}
}

// lastAttachFailure is when the controller last reported to the pod that an attach had failed;
// zero where no event says so.
func lastAttachFailure(p *facts.View, pod *corev1.Pod) metav1.Time {
	last := p.LastEvent(pod, func(e *corev1.Event) bool { return e.Reason == facts.AttachFailedReason })
	if last == nil {
		return metav1.Time{}
	}
	return snapshot.EventTime(last)
}
