package nodestatus

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/kubeletwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/storage"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var AttachedTrueButNot = check.Check{
	Code:        "VD308",
	Name:        "attached-true-but-not",
	Title:       "A node does not find the device of a volume that counts as attached",
	Severity:    finding.Error,
	Breaks:      check.Holds,
	Needs:       check.AttachmentKinds(snapshot.CSINodes, snapshot.Events),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "delete the VolumeAttachment of a volume that a pod runs with, or patch status.attached",
	Run:         runAttachedTrueButNot,
}

func runAttachedTrueButNot(p *check.Run) {
	truth := storage.Of(p.View)
	for _, va := range p.Attachments() {
		if len(p.PendingOn(va.Node)) == 0 && truth == nil {
			continue
		}
		node := p.Snapshot.Node(va.Node)
		if !va.Holds() || !va.Ours() || !reconcile.NodeReady(node) || !p.Lists(node, va.Volume) ||
			va.CreationTimestamp.Before(&node.CreationTimestamp) || attachedToFormerNode(p.View, va) {
			continue
		}
		entry := truth.Volume(va.Volume)
		if detachedAtStorage(p, va, node, entry) || !p.InUse(node, va.Volume) || runsThere(p.View, va) {
			continue
		}
		for _, pod := range waitingUnstarted(p.View, va) {
			if event := deviceMissing(p.View, pod, p.ShortVolumeOf(va), va); event != nil {
				notAttached(p, va, pod, event, entry)
				break
			}
		}
	}
}

// waitingUnstarted are the pods on the node that do not use the volume yet.
func waitingUnstarted(p *facts.View, va facts.Attachment) []*corev1.Pod {
	return facts.LongestFirst(slices.DeleteFunc(facts.Pending(p.World.LivePods(va.VolumeNode)), func(pod *corev1.Pod) bool {
		return !p.ContainersUse(pod, va.Volume)
	}))
}

// runsThere reports whether a pod runs on the node with the volume: its device is there.
func runsThere(p *facts.View, va facts.Attachment) bool {
	return slices.ContainsFunc(p.World.LivePods(va.VolumeNode), func(pod *corev1.Pod) bool {
		return facts.Mounted(pod) && p.ContainersUse(pod, va.Volume)
	})
}

// attachedToFormerNode reports whether the volume was attached to another machine of the same
// name, which is another failure.
func attachedToFormerNode(p *facts.View, va facts.Attachment) bool {
	_, _, differ := p.OtherMachine(va.VolumeAttachment)
	return differ
}

// deviceMissing is the kubelet's event that the driver does not find the volume's device, where
// it has reported that for some time since the attach.
func deviceMissing(p *facts.View, pod *corev1.Pod, pv string, va facts.Attachment) *corev1.Event {
	for _, e := range p.EventsOf(pod) {
		first, last := facts.FirstTime(e), snapshot.EventTime(e)
		if (e.Reason == "FailedMount" || e.Reason == "FailedMapVolume") && facts.Token(e.Message, pv) &&
			facts.SaidSince(e, va.CreationTimestamp) && saysMissing(va.Spec.Attacher, e.Message) &&
			last.Sub(first.Time) >= facts.DeviceGrace && p.Age(last) <= facts.MountRetries {
			return e
		}
	}
	return nil
}

// saysMissing reports whether the driver says that the device is missing. A guess from plain words
// does not count: most messages about a device have its path in them, and this finding has a
// repair. Nor does an answer of the API server: it comes before any driver is asked.
func saysMissing(driver, message string) bool {
	entry, known := facts.DriverSays(driver, message)
	return known && !facts.ContainsAny(message, kubeletwords.AttachmentUnread) && entry.Layer.Sure() && (entry.Meaning == driverwords.DeviceMissing || entry.Meaning == driverwords.NotAttached)
}

func notAttached(p *check.Run, va facts.Attachment, pod *corev1.Pod, event *corev1.Event, entry *storage.Entry) {
	pv, since := p.ShortVolumeOf(va), facts.FirstTime(event)
	f := p.About(va, finding.Finding{
		Subject: facts.PodObject(pod),
		Pods:    facts.PodNames([]*corev1.Pod{pod}),
		Since:   &since,
		Message: fmt.Sprintf("Pod %s waits on node %s: the device of volume %s is missing", facts.PodName(pod), va.Node, pv),
		Detail:  "the volume counts as attached",
		Cause:   "the volume was detached past the cluster, or a late detach took it away again; or the node does not see the device for a reason of its own",
		Evidence: []finding.Evidence{
			{Object: va.Object(), Field: "status.attached", Value: "true, not being deleted"},
			{Object: "node/" + string(va.Node), Field: "status.volumesAttached", Value: string(va.Volume)},
			{Object: "event/" + event.Namespace + "/" + event.Name, Field: "message", Value: event.Message},
		},
		SelfHeals: finding.SelfHeals{Because: "the driver has not noticed; a driver that lists its attached volumes notices within about a minute"},
		Advice: cmp.Or(facts.OwnCheck(va.Spec.Attacher, event.Message), "{check} check at the storage system whether the volume is attached to this node; "+
			"{check} where it is, the node does not see it: {change} rescan its buses and its multipath, then {restart-node-plugin}"),
		ByHand: "if it is not, {delete-pod}, and let it return when the VolumeAttachment is gone: the volume is then attached again",
		Never:  "patch status.attached, or attach the volume past the cluster: the controller knows nothing of that",
	})
	if attached, _ := entry.On(va.Node); !attached {
		facts.Hinted(&f)
	} else {
		f.Never = "detach the volume at the storage system: it is attached where it belongs"
		f.Detail = "the driver does not find the volume's device there, although the storage system has it attached to that node"
		f.Cause = "the node does not see the device: udev, multipath, a full bus, or a node plugin without the host's /dev"
		f.SelfHeals.Because = "the volume is attached already; the driver on the node has to find it"
		f.Advice, f.ByHand = "{check} see lsblk on the node and the log of the driver's node plugin: the failure is there", ""
	}
	if entry != nil {
		f.Evidence = append(f.Evidence, entry.Evidence())
	}
	p.Report(f)
}
