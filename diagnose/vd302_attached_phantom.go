package diagnose

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var attachedPhantom = Check{
	Code:     "VD302",
	Name:     "attached-phantom",
	Title:    "A node's volumesAttached lists a volume that has no VolumeAttachment",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.Leases,
	},
	Run: runAttachedPhantom,
}

const (
	// phantomSettles is how long the controller may take to notice that a
	// VolumeAttachment is gone: it compares once a minute, then takes the entry
	// off the list; the rest is margin for one attach.
	phantomSettles = 3 * time.Minute
	// phantomSettlesUnseen is the same where nobody recorded when the list was
	// written: then only the pod's age bounds that of the entry, and the attach
	// may have taken all of it, several operations of 2 min among it.
	phantomSettlesUnseen = 10 * time.Minute
)

func runAttachedPhantom(p *Pass) {
	if p.controllerJustStarted() {
		return // it compares a minute after its start
	}
	for _, node := range p.Snapshot.Nodes {
		// Where no controller attaches, node-not-controller-managed says why.
		if !reconcile.NodeReady(node) || !p.World.Managed.Has(nodeName(node)) {
			continue
		}
		seen := map[corev1.UniqueVolumeName]bool{}
		for _, v := range node.Status.VolumesAttached {
			if !seen[v.Name] {
				p.attachedPhantom(node, reconcile.VolumeNode{Volume: v.Name, Node: nodeName(node)})
			}
			seen[v.Name] = true
		}
	}
}

func (p *Pass) attachedPhantom(node *corev1.Node, pair reconcile.VolumeNode) {
	driver, handle, ok := reconcile.ParseCSI(pair.Volume)
	if row := p.World.Actual[pair]; ok && row != nil && row.Attachment != nil && reconcile.IsVolumeAttachmentName(row.Attachment.Name, handle, driver, pair.Node) {
		return // as nearly all are, and the name need not be made
	}
	name := attachmentName(pair)
	if !ok || !p.attachRequired(driver) || p.Snapshot.VolumeAttachment(name) != nil {
		return // in-tree names and drivers that attach nothing have no VolumeAttachment
	}
	pods := p.World.LivePods(pair)
	longestFirst(pods)
	_, written := volumesAttachedWriter(node)
	switch {
	case !written.IsZero() && p.Age(written) < phantomSettles:
		return
	case written.IsZero() && len(pods) > 0 && p.Age(boundAt(pods[0])) < phantomSettlesUnseen:
		return
	}
	pv := p.shortVolume(pair.Volume)
	f := Finding{
		Subject:          Object{Kind: "Node", Name: node.Name, UID: node.UID},
		Volume:           pair.Volume,
		Node:             pair.Node,
		PersistentVolume: pv,
		VolumeAttachment: name,
		Pods:             podNames(pods),
		Cause: "the VolumeAttachment was deleted past the controller, or the entry was written by somebody else; the controller holds it for " +
			"attached without knowing the volume, so that its comparison passes it over",
		Evidence: []Evidence{
			{"node/" + node.Name, "status.volumesAttached", string(pair.Volume)},
			{"volumeattachment/" + name, "metadata.name", "there is no such object"},
		},
		SelfHeals: SelfHeals{Because: "the controller compares once a minute and has not mended it; it does within about 2 min of a restart of kube-controller-manager"},
		Advice: "delete the pod, wait until the entry has left volumesAttached, then let the pod return; the words \"no relationship found\" " +
			"mean that the object is missing: no permission is",
	}
	if !written.IsZero() {
		f.Since = &written
	}
	for _, va := range p.World.Attachments(pair) {
		f.Evidence = append(f.Evidence, Evidence{"volumeattachment/" + va.Name, "metadata.name",
			"is for the same volume and node, but neither the kubelet nor the controller looks for this name"})
	}
	p.reportPhantom(f, pods)
}

func (p *Pass) reportPhantom(f Finding, pods []*corev1.Pod) {
	waiting := pending(pods)
	switch {
	case len(waiting) > 0:
		pod := waiting[0]
		f.Subject = podObject(pod)
		f.Message = fmt.Sprintf("Pod %s waits on node %s for volume %s: volumesAttached lists it, but its VolumeAttachment does not exist, "+
			"and the kubelet cannot go on without", podName(pod), f.Node, f.PersistentVolume)
		if e := p.missingRelationship(pod); e != nil {
			f.Evidence = append(f.Evidence, Evidence{"event/" + e.Namespace + "/" + e.Name, "message", e.Message})
		}
	case len(pods) > 0:
		f.Subject = podObject(pods[0])
		f.Message = fmt.Sprintf("Pod %s runs on node %s with volume %s, whose VolumeAttachment does not exist: nothing keeps the volume from being "+
			"attached elsewhere, and the storage system may have detached it", podName(pods[0]), f.Node, f.PersistentVolume)
		f.Advice = "find out at the storage system whether the volume is still attached to the node; then end the pod and let it start anew"
	default:
		f.Severity = Warning
		f.Message = fmt.Sprintf("Node %s lists volume %s in volumesAttached, but its VolumeAttachment does not exist: the next pod there that wants "+
			"the volume will wait", f.Node, f.PersistentVolume)
		f.Advice = "have the kube-controller-manager leader restarted before a pod needs the volume there"
	}
	p.Report(f)
}

// missingRelationship is the event in which the kubelet says that it may not
// read the VolumeAttachment, which is how the API server puts that there is none.
func (p *Pass) missingRelationship(pod *corev1.Pod) *corev1.Event {
	for _, e := range p.Snapshot.EventsOf(pod.UID) {
		if e.Reason == "FailedMount" && strings.Contains(e.Message, "no relationship found") {
			return e
		}
	}
	return nil
}
