package check

import (
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Yield drops a finding where the check To has a finding with the same key, because that
// finding says more. Findings of To count also where they are dropped themselves, or where the
// user did not ask for To. To may need no kind that the yielding check does not need: then a
// gap never brings back a finding that was dropped.
type Yield struct {
	To finding.Code
	// Key is "" for a finding that yields to nothing.
	Key func(p *facts.View, f finding.Finding) string
}

// Relation names checks whose findings cause findings of its check.
type Relation struct {
	From []finding.Code
	// Share is a key. The engine compares only causes and effects with the same key. Nil
	// compares each cause with each effect, which is right where there are no more causes than
	// drivers.
	Share func(finding.Finding) string
	Match func(p *facts.View, cause, effect finding.Finding) bool
}

// Group merges the findings of a group of codes that have the same key: they share the cause.
type Group struct {
	// Name is the group's name in finding.Groups.
	Name string
	// Key is "" for a finding that shares its cause with no other.
	Key func(p *facts.View, f finding.Finding) string
	// Headline is the sentence about the shared cause of the findings of one key.
	Headline func(p *facts.View, f finding.Finding) string
}

// Groups has each of finding.Groups.
var Groups = []Group{
	{"lost node", lostNode, lostNodeHeadline},
	{"nobody attaches", (*facts.View).DriverOf, ofDriver("No external-attacher attaches volumes of %s")},
	{"unrecorded", (*facts.View).DriverOf, ofDriver("The external-attacher of %s attaches volumes and does not record it")},
	{"silent backend", silentBackend, ofDriver("The storage system of %s does not answer for volumes")},
	{"other machine", OfNode, ofNodeName("Node %s was replaced, and volumes stay on the old machine")},
	{"force-detached", OfNode, ofNodeName("Node %s still has volumes mounted that are detached from it")},
	{"no plugin", UnpluggedDriver, ofNodeName("Node %s cannot unmount volumes: their driver is not registered there")},
	{"unused", ofVolumeName, unusedHeadline},
	{"rollout", rivals, ofNodeName("Old pods on node %s keep volumes of a rolling update")},
	{"disks gone", (*facts.View).DriverOf, ofDriver("Volumes of %s lead to disks that the storage system's list does not have")},
	{"unclaimed", (*facts.View).DriverOf, ofDriver("Disks of %s are attached to nothing, and no PersistentVolume names them")},
	{"consumers", rivals, ofNodeName("Pods on node %s keep volumes that pods elsewhere want")},
}

// OfAttachment is the key of findings about one VolumeAttachment.
func OfAttachment(_ *facts.View, f finding.Finding) string { return f.VolumeAttachment }

// OfPersistentVolume is the key of findings about one persistent volume.
func OfPersistentVolume(_ *facts.View, f finding.Finding) string { return f.PersistentVolume }

// ofVolumeName is the key of findings about one volume, however many nodes have it.
func ofVolumeName(_ *facts.View, f finding.Finding) string { return string(f.Volume) }

// OfNode is the key of findings about one node.
func OfNode(_ *facts.View, f finding.Finding) string { return string(f.Node) }

// OfDriverOnNode is the key of findings about one driver on one node.
func OfDriverOnNode(p *facts.View, f finding.Finding) string {
	return p.DriverOf(f) + " " + string(f.Node)
}

// OfDriverOnGoneNode is the key of findings about a missing node whose machine is not alive under
// another name: the driver.
func OfDriverOnGoneNode(p *facts.View, f finding.Finding) string {
	if p.Snapshot.Node(f.Node) != nil || p.AliveAs(f.Node) != nil {
		return ""
	}
	return p.DriverOf(f)
}

// OfPodsOnNode is the key of findings about waiting pods of one driver on one node; "" where none
// waits.
func OfPodsOnNode(p *facts.View, f finding.Finding) string {
	if len(f.Pods) == 0 {
		return ""
	}
	return OfDriverOnNode(p, f)
}

// Said limits a key to findings whose driver has reported one of the meanings about their
// VolumeAttachment. A finding without a VolumeAttachment keeps its key.
func Said(key func(*facts.View, finding.Finding) string, meanings ...driverwords.Meaning) func(*facts.View, finding.Finding) string {
	return func(p *facts.View, f finding.Finding) string {
		if va := p.Snapshot.VolumeAttachment(f.VolumeAttachment); va != nil {
			entry, known := facts.AttachRefusal(va.Spec.Attacher, p.AttachError(va))
			if !known || !slices.Contains(meanings, entry.Meaning) {
				return ""
			}
		}
		return key(p, f)
	}
}

// OnNode is the Share of findings that are related only on one node.
func OnNode(f finding.Finding) string { return string(f.Node) }

// OfVolume is the Share of findings that are related only by their persistent volume.
func OfVolume(f finding.Finding) string { return f.PersistentVolume }

// Always is the Match of findings that are related wherever they have the same Share.
func Always(*facts.View, finding.Finding, finding.Finding) bool { return true }

// SameDriver reports whether both findings are about one driver.
func SameDriver(p *facts.View, cause, effect finding.Finding) bool {
	driver := p.DriverOf(cause)
	return driver != "" && driver == p.DriverOf(effect)
}

// SameDriverOnNode reports whether both findings are about one driver on one node.
func SameDriverOnNode(p *facts.View, cause, effect finding.Finding) bool {
	return cause.Node == effect.Node && SameDriver(p, cause, effect)
}

// ThrottledDetach reports whether both findings are about one driver, and the provider limits
// that driver's calls to detach the effect's volume.
func ThrottledDetach(p *facts.View, cause, effect finding.Finding) bool {
	return SameDriver(p, cause, effect) && facts.Throttled(p.DriverOf(effect), driverSaid(p, effect))
}

// UnpluggedDriver is the key of findings about a driver that is not registered on their node:
// the driver and the node. It is "" where the driver is registered, or where that is not known.
func UnpluggedDriver(p *facts.View, f finding.Finding) string {
	driver := p.DriverOf(f)
	if driver == "" || !p.Snapshot.Complete(snapshot.CSINodes) || facts.Registers(p.Snapshot.CSINode(f.Node), driver) {
		return ""
	}
	return driver + " " + string(f.Node)
}

// lostNode is the key of findings about a lost node: its name, or "" for any other node.
func lostNode(p *facts.View, f finding.Finding) string {
	if !p.Lost(p.Snapshot.Node(f.Node)) {
		return ""
	}
	return string(f.Node)
}

// silentBackend is the key of findings whose driver gets no answer from its storage system: the
// driver and its message, or "" for any other message. Only equal messages show one cause.
// Messages that name their volumes therefore differ: one busy volume says nothing about another.
func silentBackend(p *facts.View, f finding.Finding) string {
	words := driverSaid(p, f)
	if !facts.Means(p.DriverOf(f), words, driverwords.TimedOut, driverwords.DriverUnavailable, driverwords.Unreachable) {
		return ""
	}
	return p.DriverOf(f) + " " + words
}

// rivals is the key of findings about the same pods that wait for volumes of the same node: the
// node and the pods.
func rivals(_ *facts.View, f finding.Finding) string {
	return string(f.Node) + " " + strings.Join(f.Pods, " ")
}

// driverSaid is the driver's last message about the finding's attachment: its detach error
// where the VolumeAttachment is being deleted, else its attach error.
func driverSaid(p *facts.View, f finding.Finding) string {
	va := p.Snapshot.VolumeAttachment(f.VolumeAttachment)
	if va == nil {
		return ""
	}
	said := p.AttachError(va)
	if va.DeletionTimestamp != nil {
		said = p.DetachError(va)
	}
	if said == nil {
		return ""
	}
	return said.Message
}
