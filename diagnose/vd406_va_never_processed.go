package diagnose

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var vaNeverProcessed = Check{
	Code:     "VD406",
	Name:     "va-never-processed",
	Title:    "No attacher has touched a VolumeAttachment that a pod waits for",
	Severity: Error,
	Needs: []snapshot.Kind{
		snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes, snapshot.Leases,
	},
	Run: runVANeverProcessed,
}

// untouchedSettles is how long an attacher may leave a new VolumeAttachment
// alone: it comes to one within seconds, and within minutes after a roll-out of
// the driver, whose images are pulled first.
const untouchedSettles = 5 * time.Minute

// leaderSettles is how long an attacher that has taken the lease over may take
// to come to everything: it makes some five requests a second, several for each
// VolumeAttachment, and a large cluster has some thousands.
const leaderSettles = 15 * time.Minute

func runVANeverProcessed(p *Pass) {
	for _, va := range p.attachments() {
		if !untouched(va) || !va.ours() || p.Age(va.CreationTimestamp) < untouchedSettles || p.busyElsewhere(va) || p.attacherExplained(va.Spec.Attacher) {
			continue
		}
		if pods := p.waitingHere(va.VolumeNode); len(pods) > 0 {
			p.neverProcessed(va, pods)
		}
	}
}

// untouched says that nothing on the object was written after it was made.
func untouched(va attachment) bool {
	return !va.Status.Attached && va.Status.AttachError == nil && va.Status.DetachError == nil && va.DeletionTimestamp == nil &&
		len(va.Finalizers) == 0 && va.Annotations[nodeIDAnnotation] == ""
}

// busyElsewhere says that the driver's attacher has come to others since: it
// lives, and is only slow.
func (p *Pass) busyElsewhere(va attachment) bool {
	return p.lastAnswer(va.Spec.Attacher).After(va.CreationTimestamp.Time) || slices.ContainsFunc(p.tasks(va.Spec.Attacher), func(t task) bool {
		return !t.untouched() && (t.failure == nil || va.CreationTimestamp.Before(&t.CreationTimestamp))
	})
}

// attacherExplained says that another check tells why nobody comes: the driver
// is not installed or has another name, its attacher does not run or does
// nothing, or there is neither a CSIDriver nor an attacher and the driver
// attaches nothing.
func (p *Pass) attacherExplained(driver string) bool {
	lease := p.attacherLease(driver)
	switch {
	case !p.attacherAtWork(driver):
		return true
	case lease == nil:
		return p.attachesByMistake(driver)
	default:
		// One that has only lately begun to lead works its way through the list.
		return p.Age(renewed(lease)) < leaseSettles && lease.Spec.AcquireTime != nil &&
			p.Age(metav1.NewTime(lease.Spec.AcquireTime.Time)) < leaderSettles
	}
}

func (p *Pass) neverProcessed(va attachment, pods []*corev1.Pod) {
	pv := p.shortVolume(va.Volume)
	f := Finding{
		Subject:          podObject(pods[0]),
		Volume:           va.Volume,
		Node:             va.Node,
		PersistentVolume: pv,
		VolumeAttachment: va.Name,
		Pods:             podNames(pods),
		Since:            &va.CreationTimestamp,
		Message: fmt.Sprintf("Pod %s waits on node %s for volume %s, whose VolumeAttachment no attacher of %s has touched for %s%s",
			podName(pods[0]), va.Node, pv, va.Spec.Attacher, rounded(p.Age(va.CreationTimestamp)), alike(pods)),
		Cause: "no external-attacher of the driver watches this cluster, or the one that does no longer works",
		Evidence: []Evidence{
			{va.object(), "metadata", "no finalizers, no " + nodeIDAnnotation},
			{va.object(), "status", "attached: false, no error"},
		},
		SelfHeals: SelfHeals{Because: "the attach follows by itself within about 2 min once an attacher for the driver runs; nothing else can make it"},
		Advice: fmt.Sprintf("look at the controller pods of %s: is its csi-attacher there, Ready, and does its log show this VolumeAttachment? "+
			"Deleting the VolumeAttachment changes nothing: the controller makes it anew", va.Spec.Attacher),
	}
	if lease := p.attacherLease(va.Spec.Attacher); lease != nil {
		f.Evidence = append(f.Evidence, leaseEvidence(lease))
	}
	p.Report(f)
}
