package blocked

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/step"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var PermanentlyUnmountable = check.Check{
	Code:        "VD412",
	Name:        "permanently-unmountable",
	Title:       "A pod waits for a mount that no retry can bring about",
	Severity:    finding.Error,
	Needs:       []snapshot.Kind{snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.CSINodes, snapshot.Events},
	OfNamespace: true,
	Never:       "make a file system on a Block volume to mount it: it may hold data without one",
	Run:         runPermanentlyUnmountable,
}

// unmountable is a volume of a pod that cannot be mounted.
type unmountable struct {
	pod   *corev1.Pod
	pv    *corev1.PersistentVolume // nil for an inline volume
	name  string
	why   string
	blame facts.Blame
	since metav1.Time
	said  *corev1.Event // nil where the objects alone show it
}

func runPermanentlyUnmountable(p *check.Run) {
	var found []unmountable
	for _, pod := range p.PendingPods() {
		if p.Snapshot.Node(facts.NodeOf(pod)) == nil || reconcile.PodTerminated(pod) || facts.MayUseVolumes(pod) {
			continue
		}
		for i := range pod.Spec.Volumes {
			if u, ok := cannotMount(p.View, pod, &pod.Spec.Volumes[i]); ok {
				found = append(found, u)
			}
		}
	}
	for _, list := range check.GroupBy(found, unmountable.disk) {
		reportUnmountable(p, list)
	}
}

// disk is equal for pods that share a volume.
func (u unmountable) disk() string {
	if u.pv != nil {
		return u.pv.Name
	}
	return facts.PodName(u.pod) + " " + u.name
}

func cannotMount(p *facts.View, pod *corev1.Pod, v *corev1.Volume) (unmountable, bool) {
	if !facts.Referenced(pod, v.Name) || v.CSI != nil && !facts.Registers(p.Snapshot.CSINode(facts.NodeOf(pod)), v.CSI.Driver) {
		return unmountable{}, false
	}
	u := unmountable{pod: pod, blame: facts.Blame{Actor: kubeletwords.Nobody}, pv: p.BoundVolume(pod, v), name: v.Name, since: facts.BoundAt(pod)}
	if u.pv != nil {
		u.name = u.pv.Name
	}
	if u.why = facts.WrongMode(pod, v.Name, u.pv); u.why != "" {
		return u, true
	}
	failures := p.MountFailures(pod, u.name, v.Name)
	if len(failures) == 0 || attachmentUnread(p, pod, v) {
		return unmountable{}, false
	}
	last, first := failures[len(failures)-1], facts.FirstTime(failures[0].Event)
	driver, _ := p.CsiVolume(pod, v)
	blame := facts.BlameFor(kubeletwords.MountWords, last.Reason, p.Whose(pod, v, driver))
	if !blame.Permanent || facts.ContainsAny(last.Reason, kubeletwords.NodeNotAllowed) || p.Age(snapshot.EventTime(last.Event)) > facts.EventRepeats || !p.Lasted(first, facts.MountFails) {
		return unmountable{}, false
	}
	u.blame = blame
	u.why, u.since, u.said = "the kubelet says so", first, last.Event
	return u, true
}

// attachmentUnread reports whether an attachment that was not read may be younger than what the kubelet said of the
// mount.
func attachmentUnread(p *facts.View, pod *corev1.Pod, v *corev1.Volume) bool {
	volume, _, err := p.World.PodVolume(pod, v)
	pair := reconcile.VolumeNode{Volume: volume, Node: facts.NodeOf(pod)}
	return err == nil && !p.Snapshot.Complete(snapshot.VolumeAttachments) && p.Snapshot.VolumeAttachment(facts.AttachmentName(pair)) == nil
}

// lacksSidecar reports whether the driver's webhook added no sidecar to the pod.
func (u unmountable) lacksSidecar() bool {
	return facts.ContainsAny(u.said.Message, kubeletwords.NotInjected, kubeletwords.NoSidecar)
}

// toCorrect is the correction, and the object that needs it.
func (u unmountable) toCorrect() string {
	switch {
	case u.blame.Do != "":
		return u.blame.Do
	case u.lacksSidecar():
		return "{check} see that the driver's webhook runs, and that the pod's template has the annotations that it asks for"
	case u.pv != nil:
		return "{change} correct what the message names: mountOptions and accessModes in the PersistentVolume, and in its StorageClass for the volumes to come"
	case facts.ContainsAny(u.said.Message, kubeletwords.ModeNotSupported):
		return fmt.Sprintf("take volume %s out of the pod's template, and {change} use a claim in its place: its driver mounts no volume that stands in the pod itself", u.name)
	default:
		return fmt.Sprintf("{change} correct what the message names of volume %s in the pod's template, where the volume stands", u.name)
	}
}

func reportUnmountable(p *check.Run, list []unmountable) {
	first := list[0]
	pods := make([]*corev1.Pod, 0, len(list))
	for _, u := range list {
		pods = append(pods, u.pod)
	}
	pods = facts.EachOnce(pods)
	f := finding.Finding{
		Subject:   facts.PodObject(first.pod),
		Node:      facts.NodeOf(first.pod),
		Pods:      facts.PodNames(pods),
		Since:     &first.since,
		Actor:     first.blame.Actor,
		Message:   fmt.Sprintf("Pod %s waits on node %s: no retry mounts volume %s", facts.PodName(first.pod), first.pod.Spec.NodeName, first.name),
		Detail:    finding.Clauses(first.why, facts.Alike(pods)),
		Cause:     "the pod uses the volume in a way that the volume does not have",
		SelfHeals: finding.SelfHeals{Because: "the kubelet repeats the same attempt; neither the mode of a volume nor the volumes of a pod can change"},
		Advice: "{change} correct the pod's template: volumeDevices for a volume of mode Block, volumeMounts for one of mode Filesystem; or {change} make a new claim with the other " +
			"volumeMode; " + step.DeletePod.Of(facts.PodNames(pods)...),
	}
	if first.pv != nil {
		f.Subject, f.PersistentVolume, f.Node = facts.PvObject(first.pv), first.pv.Name, facts.NodeOf(first.pod)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolume/" + first.pv.Name, Field: "spec.volumeMode", Value: string(facts.VolumeMode(first.pv))})
	}
	if first.said == nil {
		if first.pv != nil && facts.VolumeMode(first.pv) == corev1.PersistentVolumeFilesystem {
			f.Never = "write to the disk as to a raw device: it may hold a file system"
		}
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(first.pod), Field: "spec.containers", Value: first.why})
	} else {
		f.Said = facts.QuoteEvent(first.said)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "pod/" + facts.PodName(first.pod), Field: "event " + first.said.Reason, Value: first.said.Message})
		f.Cause = cmp.Or(first.blame.Means, "the driver or the node's mount program does not know the mount option, access mode or kind of volume that is asked for")
		f.SelfHeals.Because = "the kubelet repeats the same attempt with the same options"
		if first.lacksSidecar() {
			f.Cause = "the pod has no sidecar to serve the volume: the driver's webhook put none in when the pod was made"
			f.SelfHeals.Because = "the containers of a pod do not change"
		}
		f.Never = "mount the volume on the node by hand: the kubelet goes on failing"
		f.Advice = first.toCorrect() + "; " + step.DeletePod.Of(f.Pods...)
	}
	if slices.ContainsFunc(list, func(u unmountable) bool { return u.pod.Spec.NodeName != first.pod.Spec.NodeName }) {
		f.Node = ""
	}
	p.Report(f)
}
