package diagnose

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var attachedTrueButNot = Check{
	Code:     "VD308",
	Name:     "attached-true-but-not",
	Title:    "A node does not find the device of a volume that counts as attached",
	Severity: Info,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes, snapshot.Events,
	},
	Run: runAttachedTrueButNot,
}

// deviceSettles is how long a device may take to appear, and how long a driver
// that compares may take to attach it again, which it does once a minute.
const deviceSettles = 5 * time.Minute

// mountRetries is the longest time between two events of a mount that keeps
// failing: its back-off ends at 2 min, and a recorder passes on one event of a
// kind in 5 min once it has sent many.
const mountRetries = 10 * time.Minute

func runAttachedTrueButNot(p *Pass) {
	for _, va := range p.attachments() {
		if len(p.pendingByNode()[va.Node]) == 0 {
			continue
		}
		node := p.Snapshot.Node(va.Node)
		if !va.holds() || !va.ours() || !reconcile.NodeReady(node) || !inUse(node, va.Volume) || !lists(node, va.Volume) ||
			va.CreationTimestamp.Before(&node.CreationTimestamp) || p.attachedToFormerNode(va) {
			continue
		}
		for _, pod := range p.waitingUnstarted(va) {
			if event := p.deviceMissing(pod, p.shortVolume(va.Volume)); event != nil {
				p.notAttached(va, pod, event)
				break
			}
		}
	}
}

// waitingUnstarted are the pods on the node that have not come to use the volume.
func (p *Pass) waitingUnstarted(va attachment) []*corev1.Pod {
	pods := pending(p.World.LivePods(va.VolumeNode))
	longestFirst(pods)
	return pods
}

// attachedToFormerNode says that the volume was attached to another machine of
// the same name, which is another failure.
func (p *Pass) attachedToFormerNode(va attachment) bool {
	csiNode, id := p.Snapshot.CSINode(va.Node), va.Annotations[nodeIDAnnotation]
	if csiNode == nil || id == "" {
		return false
	}
	for _, d := range csiNode.Spec.Drivers {
		if d.Name == va.Spec.Attacher && d.NodeID != id {
			return true
		}
	}
	return false
}

// deviceMissing is the event in which the kubelet has for some time reported
// that the driver does not find the volume's device.
func (p *Pass) deviceMissing(pod *corev1.Pod, pv string) *corev1.Event {
	for _, e := range p.Snapshot.EventsOf(pod.UID) {
		first, last := firstTime(e), eventTime(e)
		if (e.Reason == "FailedMount" || e.Reason == "FailedMapVolume") && token(e.Message, pv) && noDevice(e.Message) &&
			last.Sub(first.Time) >= deviceSettles && p.Age(last) <= mountRetries {
			return e
		}
	}
	return nil
}

// noDevice knows the drivers' wordings. What a file system, a permission or a
// secret lacks is worded otherwise.
func noDevice(message string) bool {
	return containsAny(message, "device not found", "device is not found", "no such device", "failed to find disk", "failed to find device",
		"unable to find device", "could not find device", "cannot find device", "couldn't find device", "could not find attached",
		"no device path for device", "find disk on lun", "hot-plug volume", "could not determine device path")
}

func (p *Pass) notAttached(va attachment, pod *corev1.Pod, event *corev1.Event) {
	pv, since := p.shortVolume(va.Volume), firstTime(event)
	p.Report(Finding{
		Subject:          podObject(pod),
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Pods:             podNames([]*corev1.Pod{pod}),
		Since:            &since,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, which counts as attached but whose device the driver does not find there: a hint "+
			"that the storage system has it detached", podName(pod), va.Node, pv),
		Cause: "the volume was detached past the cluster, or a late detach took it away again; or the node does not see the device for a reason of its own",
		Evidence: []Evidence{
			{va.object(), "status.attached", "true, not being deleted"},
			{"node/" + string(va.Node), "status.volumesAttached", string(va.Volume)},
			{"event/" + event.Namespace + "/" + event.Name, "message", event.Message},
		},
		SelfHeals: SelfHeals{Because: "only a driver that lists which volumes are attached where would notice, within about a minute; this one has not"},
		Advice: "see at the storage system whether the volume is attached to this node; if it is not, delete the pod, wait until the VolumeAttachment " +
			"is gone, and let the pod return: the volume is then attached anew",
	})
}
