package nodestatus

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var AttachedPhantom = check.Check{
	Code:     "VD302",
	Name:     "attached-phantom",
	Title:    "A node's volumesAttached lists a volume that has no VolumeAttachment",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.Leases),
	OfDriver: true,
	Follows: []check.Relation{
		{From: []finding.Code{"VD205"}, Share: check.OfVolume, Match: check.Always},
	},
	Never: "restart the kubelet: only the controller writes the list",
	Run:   runAttachedPhantom,
}

const (
	// phantomMargin is how much longer than its verify sync the controller may take to notice
	// that a VolumeAttachment is gone, and to remove the entry: one attach.
	phantomMargin = reconcile.CSITimeout
	// phantomGraceUnseen is the same where no time of the list's last write is known: only the
	// pod's age limits the entry's, and the attach may have taken all of it.
	phantomGraceUnseen = facts.AttachGraceUnseen
)

func runAttachedPhantom(p *check.Run) {
	if p.ControllerJustStarted() {
		return // it compares a minute after its start
	}
	for _, node := range p.Snapshot.Nodes {
		// Where no controller attaches, node-not-controller-managed has the cause.
		if !reconcile.NodeReady(node) || !p.World.Managed.Has(facts.NodeName(node)) {
			continue
		}
		seen := map[corev1.UniqueVolumeName]bool{}
		for _, v := range node.Status.VolumesAttached {
			if !seen[v.Name] {
				attachedPhantom(p, node, reconcile.VolumeNode{Volume: v.Name, Node: facts.NodeName(node)})
			}
			seen[v.Name] = true
		}
	}
}

func attachedPhantom(p *check.Run, node *corev1.Node, pair reconcile.VolumeNode) {
	driver, handle, ok := reconcile.ParseCSI(pair.Volume)
	if row := p.World.Actual.Find(pair); ok && row != nil && row.Attachment != nil && reconcile.IsVolumeAttachmentName(row.Attachment.Name, handle, driver, pair.Node) {
		return // nearly all have one, and no name has to be computed
	}
	name := facts.AttachmentName(pair)
	if !ok || !p.AttachRequired(driver) || p.Snapshot.VolumeAttachment(name) != nil {
		return // in-tree names and drivers that attach nothing have no VolumeAttachment
	}
	pods := facts.LongestFirst(p.World.LivePods(pair))
	added := facts.AddedByRepair(node, pair.Volume)
	writer, written := facts.VolumesAttachedWriter(node)
	switch {
	case !written.IsZero() && p.Age(written) < facts.ListsGrace && !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return len(p.MountFailures(pod, p.ShortVolume(pair.Volume))) > 0 }):
		return // the VolumeAttachments may have been listed before the entry was written
	case !written.IsZero() && !p.Lasted(written, max(reconcile.VerifySyncPeriod, p.World.VerifySync())+phantomMargin):
		return
	case written.IsZero() && len(pods) > 0 && !p.Lasted(facts.BoundAt(pods[0]), max(phantomGraceUnseen, p.World.VerifySync()+phantomMargin)):
		return
	}
	if (len(pods) == 0 || !p.Lasted(facts.BoundAt(pods[0]), facts.ListsGrace)) && handedOver(p, pair) {
		return
	}
	if added && len(pods) > 0 && !p.Lasted(facts.BoundAt(pods[0]), facts.AttachGrace) {
		return // the controller does not know the entry, and attaches the volume for the pod
	}
	pv := p.ShortVolume(pair.Volume)
	f := facts.AboutNode(node, finding.Finding{
		Volume:           pair.Volume,
		PersistentVolume: pv,
		VolumeAttachment: name,
		Pods:             facts.PodNames(pods),
		Cause: "somebody other than the controller deleted the VolumeAttachment or wrote the entry; the controller either counts the volume as attached " +
			"and no longer knows it, or does not know of the entry, which its comparison then skips",
		Evidence: []finding.Evidence{
			{Object: "node/" + node.Name, Field: "status.volumesAttached", Value: string(pair.Volume)},
			{Object: "volumeattachment/" + name, Field: "metadata.name", Value: "there is no such object"},
		},
		SelfHeals: phantomHeals(p.World.VerifySync(), 0),
		ByHand:    "{delete-pod}; let it return when the entry has left volumesAttached",
	})
	if !written.IsZero() {
		f.Since = &written
	}
	for _, va := range p.World.Attachments(pair) {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "volumeattachment/" + va.Name, Field: "metadata.name",
			Value: "is for the same volume and node, but neither the kubelet nor the controller looks for this name"})
	}
	if added {
		addedByRepair(&f)
	}
	reportPhantom(p, f, pods, added, writer)
}

// handedOver reports whether the volume moves to another node just now. A list of nodes that is
// older than the list of VolumeAttachments still has the entry.
func handedOver(p *check.Run, pair reconcile.VolumeNode) bool {
	return p.HasNewUser(pair) || slices.ContainsFunc(p.AttachmentsOf(pair.Volume), func(other facts.Attachment) bool {
		return other.Node != pair.Node && !p.Lasted(other.CreationTimestamp, facts.ListsGrace)
	})
}

// addedByRepair adds why an entry that this program has written is still there: the controller
// writes the list only when one of its own entries changes, and then removes this one.
func addedByRepair(f *finding.Finding) {
	f.Cause = fmt.Sprintf("volume-doctor added the entry while the volume was attached, as the annotation %s says; the volume was detached since, and "+
		"the controller, which does not know of the entry, has left it there", facts.MarkAnnotation)
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "node/" + string(f.Node), Field: "metadata.annotations", Value: facts.MarkAnnotation + " names the volume"})
	if len(f.Pods) > 0 {
		return // they need something else than the entry
	}
	f.SelfHeals = finding.SelfHeals{Because: "the controller does not know of the entry; the controller takes it off when it next writes the list: when a volume is attached " +
		"to or detached from this node"}
}

// phantomHeals is whether and when the controller fixes it. Only an event can show how long the
// VolumeAttachment has been missing: see missingRelationship.
func phantomHeals(sync, missing time.Duration) finding.SelfHeals {
	if sync < 0 {
		return finding.SelfHeals{Because: "the controller is told not to compare; it has --disable-attach-detach-reconcile-sync"}
	}
	every := "once a minute"
	if sync != reconcile.VerifySyncPeriod {
		every = "every " + sync.String()
	}
	bound, restart := sync+phantomMargin, sync+reconcile.VerifySyncPeriod
	if missing >= bound {
		return finding.SelfHeals{Because: fmt.Sprintf("the controller has compared and not fixed it; the controller compares %s, and fixes it within about %s of a restart of kube-controller-manager",
			every, facts.Rounded(restart))}
	}
	return finding.SelfHeals{Unknown: true, Because: fmt.Sprintf("the controller may attach it again; the controller compares %s, and attaches again what has just lost its VolumeAttachment; of one that has lacked it for %s "+
		"the controller knows nothing until about %s after a restart of kube-controller-manager", every, facts.Rounded(bound), facts.Rounded(restart))}
}

func reportPhantom(p *check.Run, f finding.Finding, pods []*corev1.Pod, added bool, writer string) {
	waiting := slices.DeleteFunc(facts.Pending(pods), func(pod *corev1.Pod) bool { return !p.ContainersUse(pod, f.Volume) })
	switch {
	case len(waiting) > 0:
		pod := waiting[0]
		f.Subject = facts.PodObject(pod)
		f.Message = fmt.Sprintf("Pod %s waits on node %s: volume %s has no VolumeAttachment", facts.PodName(pod), f.Node, f.PersistentVolume)
		f.Detail = "volumesAttached lists the volume, and the kubelet cannot go on without its VolumeAttachment"
		if e := missingRelationship(p.View, pod); e != nil {
			f.SelfHeals = phantomHeals(p.World.VerifySync(), p.Age(facts.FirstTime(e)))
			f.Evidence = append(f.Evidence, finding.Evidence{Object: "event/" + e.Namespace + "/" + e.Name, Field: "message", Value: e.Message})
			f.Never = "look for a missing permission: \"no relationship found\" means that the VolumeAttachment is missing"
		}
	case len(pods) > 0:
		f.Subject = facts.PodObject(pods[0])
		f.Message = fmt.Sprintf("Pod %s runs on node %s, and its volume %s has no VolumeAttachment", facts.PodName(pods[0]), f.Node, f.PersistentVolume)
		f.Detail = "nothing keeps the volume from being attached elsewhere, and the storage system may have detached it"
		f.Never = "start a pod with the volume on another node: both nodes may then write to it"
		f.Advice, f.ByHand = "{check} find out at the storage system whether the volume is still attached to the node; {delete-pod} and let it start again", ""
	case added:
		f.Severity = finding.Warning
		f.Message = fmt.Sprintf("Node %s lists volume %s in volumesAttached without a VolumeAttachment", f.Node, f.PersistentVolume)
		f.Detail = "volume-doctor added the entry, and it has outlived the attachment"
		f.Advice, f.ByHand = "{change} take it off with kubectl volume-doctor undo and the journal of that repair; without the journal:", "{note} leave it: nothing waits for it"
	default:
		f.Severity = finding.Warning
		next := "may wait: it will if the running controller has read the entry"
		switch start := p.ControllerStart(); {
		case start.IsZero() || f.Since == nil:
		case f.Since.Before(&start):
			next = "will wait"
		case !strings.HasPrefix(writer, reconcile.ControllerManager):
			next = fmt.Sprintf("attaches it as usual, and will wait once %s has been restarted: the controller reads the entry, which %q wrote, only when it starts",
				reconcile.ControllerManager, writer)
			f.SelfHeals = finding.SelfHeals{Because: "the controller does not know of the entry; the controller takes it off when it next writes the list: when a volume is attached to or " +
				"detached from this node"}
		}
		f.Message = fmt.Sprintf("Node %s lists volume %s in volumesAttached without a VolumeAttachment", f.Node, f.PersistentVolume)
		f.Detail = "the next pod there that wants the volume " + next
		f.ByHand = "{restart-kube-controller-manager} before a pod needs the volume there"
	}
	p.Report(f)
}

// missingRelationship is the kubelet's event that it may not read the VolumeAttachment: so the
// API server answers where there is none.
func missingRelationship(p *facts.View, pod *corev1.Pod) *corev1.Event {
	for _, e := range p.EventsOf(pod) {
		if e.Reason == "FailedMount" && strings.Contains(e.Message, "no relationship found") && p.Age(snapshot.EventTime(e)) <= facts.MountRetries {
			return e
		}
	}
	return nil
}
