package nodestatus

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
)

// detachedAtStorage reports a volume that a pod has or waits for. For the cluster it was attached
// to the pod's node when the storage system's list was taken; in the list it is not attached.
func detachedAtStorage(p *check.Run, va facts.Attachment, node *corev1.Node, entry *storage.Entry) bool {
	if _, detached := entry.On(va.Node); !detached {
		return false
	}
	users := slices.DeleteFunc(slices.Clone(p.World.LivePods(va.VolumeNode)), func(pod *corev1.Pod) bool { return !p.ContainersUse(pod, va.Volume) })
	if len(users) == 0 || !attachedBefore(p, va, node, users, entry) {
		return false
	}
	pv, pods := p.ShortVolumeOf(va), waitingUnstarted(p.View, va)
	f := p.About(va, finding.Finding{
		Cause: "the volume was detached past the cluster, or a late detach took it away again",
		Evidence: []finding.Evidence{
			{Object: va.Object(), Field: "status.attached", Value: "true, not being deleted"},
			{Object: "node/" + string(va.Node), Field: "status.volumesAttached", Value: string(va.Volume)},
			entry.Evidence(),
		},
		SelfHeals: finding.SelfHeals{Because: "the driver has not noticed; a driver that lists its attached volumes notices within about a minute"},
	})
	if len(pods) > 0 {
		f.Subject, f.Pods = facts.PodObject(pods[0]), facts.PodNames(pods)
		f.Message = fmt.Sprintf("Pod %s waits on node %s: volume %s is not really attached", facts.PodName(pods[0]), va.Node, pv)
		f.Detail = fmt.Sprintf("it counts as attached there, and %s does not show it as attached to that node", entry.Words())
		f.ByHand = "{delete-pod}, and let it return when the VolumeAttachment is gone: the volume is then attached again"
		p.Report(f)
		return true
	}
	// A running pod has used the volume, which contradicts the list.
	f.Severity, f.Subject, f.Pods = finding.Warning, facts.PodObject(users[0]), facts.PodNames(users)
	runs := fmt.Sprintf("Pod %s runs on node %s with volume %s, which storage shows", facts.PodName(users[0]), va.Node, pv)
	f.Message = runs + " detached"
	f.Detail = fmt.Sprintf("it counts as attached there, and %s does not show it as attached to that node", entry.Words())
	f.Advice = "{check} check on the node whether the pod still reaches its volume, and at the storage system who detached it; where it is detached, {delete-pod}, " +
		"and let it return once the VolumeAttachment is gone"
	if len(entry.Holders) > 0 {
		machine := entry.Holders[0].Machine
		f.Severity, f.Message = finding.Error, runs+" on machine "+machine
		f.Detail = fmt.Sprintf("it counts as attached there, and %s has it on machine %s, which may write to it, too", entry.Words(), machine)
		f.Cause = "somebody else attached the volume to the other machine, or a late attach took it there"
		f.Advice = fmt.Sprintf("{check} find out at the storage system who attached the volume to machine %s, and whether that machine uses it; check on node %s whether the pod still reaches it; "+
			"{final} let one of the two go before the other writes again", machine, va.Node)
	}
	p.Report(f)
	return true
}

// attachedBefore reports whether the volume counted as attached to the node before the list was
// taken. No object has the time at which status.attached was set. Later signs bound it: the
// controller's entry in the node's list, a pod that ran with the volume, and a kubelet that has
// begun to stage it.
func attachedBefore(p *check.Run, va facts.Attachment, node *corev1.Node, users []*corev1.Pod, entry *storage.Entry) bool {
	if !entry.Saw(va.CreationTimestamp, 0) {
		return false
	}
	if writer, at := facts.VolumesAttachedWriter(node); facts.MayBeController(writer) && !at.Before(&va.CreationTimestamp) && entry.Saw(at, 0) {
		return true
	}
	return slices.ContainsFunc(users, func(pod *corev1.Pod) bool {
		if since := facts.RunningSince(pod); !since.Before(&va.CreationTimestamp) && entry.Saw(since, 0) {
			return true
		}
		event := deviceMissing(p.View, pod, p.ShortVolumeOf(va), va)
		return event != nil && !facts.FirstTime(event).Time.Before(va.CreationTimestamp.Time) && entry.Saw(facts.FirstTime(event), 0)
	})
}
