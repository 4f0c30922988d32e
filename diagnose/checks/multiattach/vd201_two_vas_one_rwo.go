// Package multiattach has the checks about volumes that two nodes want or have.
package multiattach

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var TwoVAsOneRWO = check.Check{
	Code:        "VD201",
	Name:        "two-vas-one-rwo",
	Title:       "A volume that one node at a time may use is attached to several",
	Severity:    finding.Error,
	Needs:       check.AttachmentKinds(snapshot.Leases),
	OfNamespace: true,
	OfDriver:    true,
	Never:       "delete a VolumeAttachment: it takes the disk from under a mount",
	Run:         runTwoVAsOneRWO,
}

// handOver is how long a volume may take to move between nodes: the controller's time-out for an
// unmount, after which it detaches by force. A controller that has just started counts from its
// own start.
const handOver = reconcile.DefaultMaxWaitForUnmount

func runTwoVAsOneRWO(p *check.Run) {
	if p.ControllerYounger(handOver) {
		return
	}
	for _, va := range p.Attachments() {
		all := p.AttachmentsOf(va.Volume)
		if len(all) < 2 || all[0].Name != va.Name {
			continue
		}
		// The attachments of missing nodes, and those that nothing uses, endanger no data and are
		// failures of their own.
		vas := slices.DeleteFunc(slices.Clone(all), func(va facts.Attachment) bool {
			return !va.Holds() || p.Age(va.CreationTimestamp) < handOver || p.Snapshot.Node(va.Node) == nil || p.Forgotten(va.VolumeNode)
		})
		slices.SortStableFunc(vas, func(a, b facts.Attachment) int { return strings.Compare(string(a.Node), string(b.Node)) })
		if len(vas) > 0 && vas[0].Node != vas[len(vas)-1].Node && p.OneNode(va.Volume) {
			twoAttachments(p, va.Volume, vas)
		}
	}
}

func twoAttachments(p *check.Run, volume corev1.UniqueVolumeName, vas []facts.Attachment) {
	pv := p.World.Volume(volume)
	f := finding.Finding{
		Subject:          facts.PvObject(pv),
		Volume:           volume,
		PersistentVolume: pv.Name,
		Evidence:         []finding.Evidence{{Object: "persistentvolume/" + pv.Name, Field: "spec.accessModes", Value: fmt.Sprint(pv.Spec.AccessModes)}},
		Cause: "an attach went ahead while another node still had the volume: after a failed detach, after a forced one from a node that lived, " +
			"or by another program's VolumeAttachment",
	}
	var nodes []string
	var places []*corev1.Node
	var users []*corev1.Pod
	for _, va := range vas {
		if !slices.Contains(nodes, string(va.Node)) {
			nodes = append(nodes, string(va.Node))
			places = append(places, p.Snapshot.Node(va.Node))
			users = append(users, p.World.LivePods(va.VolumeNode)...)
		}
		if f.Since == nil || f.Since.Before(&va.CreationTimestamp) {
			f.Since = &va.CreationTimestamp
		}
		f.Evidence = append(f.Evidence, finding.Evidence{Object: va.Object(), Field: "status.attached", Value: fmt.Sprintf("true on node %s, not being deleted", va.Node)})
	}
	f.Pods = facts.PodNames(users)
	f.SelfHeals = leaves(p.View, volume, "the controller does not compare them again; it compares attachments only before it makes one, and to it both are wanted or mounted", places...)
	f.Advice = facts.StopWriters(users) + "; once a node has unmounted the volume, the controller detaches it: check the file system before it is used again"
	f.Message = fmt.Sprintf("Single-node volume %s is attached to nodes %s", pv.Name, strings.Join(nodes, " and "))
	if len(nodes) > 2 {
		f.Message = fmt.Sprintf("Single-node volume %s is attached to %d nodes", pv.Name, len(nodes))
		f.Detail = "the nodes are " + strings.Join(nodes, ", ")
	}
	used := map[string]bool{}
	for _, pod := range users {
		used[pod.Spec.NodeName] = true
	}
	if idle := slices.DeleteFunc(nodes, func(node string) bool { return used[node] }); len(used) == 1 && len(idle) > 0 {
		f.Advice = fmt.Sprintf("{check} find out what has the volume mounted on %s, where no pod uses it, and {final} end that; pod %s may go on: check the file system before the volume is used again",
			strings.Join(idle, " and "), facts.PodName(users[0]))
	}
	if len(users) > 0 {
		facts.Also(&f, "%s", facts.PodPlaces(users))
	} else {
		facts.Also(&f, "no pod uses it")
	}
	p.Report(f)
}
