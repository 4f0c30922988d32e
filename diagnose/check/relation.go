package check

import (
	"slices"
	"strings"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/driverwords"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// Yield drops a finding where the check To has found something with the same
// key, because that finding says more. What To finds counts also where it yields
// itself, or where the user has not asked for it. To needs no kind that the check
// which yields does not need: a gap never brings back what was dropped.
type Yield struct {
	To finding.Code
	// Key is "" for a finding that yields to nothing.
	Key func(p *facts.View, f finding.Finding) string
}

// Relation names checks whose findings bring about one of the check that has it.
type Relation struct {
	From []finding.Code
	// Share is what cause and effect have in common. The engine compares only
	// findings that share it. Nil compares each cause with each effect, which is
	// right where there are no more causes than drivers.
	Share func(finding.Finding) string
	Match func(p *facts.View, cause, effect finding.Finding) bool
}

// Group holds findings with one cause that no finding tells of. Those with the
// same key have the same cause. The worst of them stands for it, and of equals
// the one whose code comes first; the others follow from that one.
type Group struct {
	Codes []finding.Code
	// Key is "" for a finding that shares its cause with no other.
	Key func(p *facts.View, f finding.Finding) string
	// Headline says what is wrong with what the findings of one key share.
	Headline func(p *facts.View, f finding.Finding) string
}

// The groups. A check names the one that it belongs to.
var (
	LostNode       = &Group{finding.GroupLostNode, lostNode, lostNodeHeadline}
	NobodyAttaches = &Group{finding.GroupNobodyAttaches, (*facts.View).DriverOf, ofDriver("No external-attacher attaches volumes of %s")}
	Unrecorded     = &Group{finding.GroupUnrecorded, (*facts.View).DriverOf, ofDriver("The external-attacher of %s attaches volumes and does not record it")}
	SilentBackend  = &Group{finding.GroupSilentBackend, silentBackend, ofDriver("The storage system of %s does not answer for volumes")}
	OtherMachine   = &Group{finding.GroupOtherMachine, OfNode, ofNodeName("Node %s was replaced, and volumes stay on the old machine")}
	ForceDetached  = &Group{finding.GroupForceDetached, OfNode, ofNodeName("Node %s still has volumes mounted that are detached from it")}
	NoPlugin       = &Group{finding.GroupNoPlugin, UnpluggedDriver, ofNodeName("Node %s cannot unmount volumes: their driver is not registered there")}
	Unused         = &Group{finding.GroupUnused, ofVolumeName, unusedHeadline}
	Rollout        = &Group{finding.GroupRollout, rivals, ofNodeName("Old pods on node %s keep volumes of a rolling update")}
	DisksGone      = &Group{finding.GroupDiskGone, (*facts.View).DriverOf, ofDriver("Volumes of %s lead to disks that the storage system's list does not have")}
	Unclaimed      = &Group{finding.GroupUnclaimed, (*facts.View).DriverOf, ofDriver("No PersistentVolume names disks that were made for %s")}
	Consumers      = &Group{finding.GroupConsumers, rivals, ofNodeName("Pods on node %s keep volumes that pods elsewhere want")}
)

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

// OfDriverOnGoneNode is the driver of a finding about a node that is gone.
func OfDriverOnGoneNode(p *facts.View, f finding.Finding) string {
	if p.Snapshot.Node(f.Node) != nil {
		return ""
	}
	return p.DriverOf(f)
}

// OfPodsOnNode is the key of findings about the pods of one driver on one node
// that wait; "" where none waits.
func OfPodsOnNode(p *facts.View, f finding.Finding) string {
	if len(f.Pods) == 0 {
		return ""
	}
	return OfDriverOnNode(p, f)
}

// Said limits a key to findings whose driver has said one of the meanings about
// their VolumeAttachment. A finding without one has the key as it is.
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

// OnNode is for findings that are related only on one node.
func OnNode(f finding.Finding) string { return string(f.Node) }

// OfVolume is for findings that are related only by their persistent volume.
func OfVolume(f finding.Finding) string { return f.PersistentVolume }

// Always is for findings that are related wherever they share what they are found by.
func Always(*facts.View, finding.Finding, finding.Finding) bool { return true }

// SameDriver reports whether both findings are about one driver.
func SameDriver(p *facts.View, cause, effect finding.Finding) bool {
	driver := p.DriverOf(cause)
	return driver != "" && driver == p.DriverOf(effect)
}

// ThrottledDetach reports whether the provider limits the calls of the driver which
// detaches the effect's volume.
func ThrottledDetach(p *facts.View, cause, effect finding.Finding) bool {
	return SameDriver(p, cause, effect) && facts.Throttled(p.DriverOf(effect), driverSaid(p, effect))
}

// UnpluggedDriver is the finding's driver and node, if the driver is not
// registered on the node.
func UnpluggedDriver(p *facts.View, f finding.Finding) string {
	driver := p.DriverOf(f)
	if driver == "" || !p.Snapshot.Complete(snapshot.CSINodes) || facts.Registers(p.Snapshot.CSINode(f.Node), driver) {
		return ""
	}
	return driver + " " + string(f.Node)
}

// lostNode is the finding's node, if it is lost.
func lostNode(p *facts.View, f finding.Finding) string {
	if !p.Lost(p.Snapshot.Node(f.Node)) {
		return ""
	}
	return string(f.Node)
}

// silentBackend is the driver and its message, if the message says that nobody
// answers the driver. Equal messages about two volumes prove one cause only where
// they name neither volume: that one volume is busy says nothing about another.
func silentBackend(p *facts.View, f finding.Finding) string {
	words := driverSaid(p, f)
	if !facts.Means(p.DriverOf(f), words, driverwords.TimedOut, driverwords.DriverUnavailable, driverwords.Unreachable) {
		return ""
	}
	return p.DriverOf(f) + " " + words
}

// rivals are the pods that wait for what a node's pods hold.
func rivals(_ *facts.View, f finding.Finding) string {
	return string(f.Node) + " " + strings.Join(f.Pods, " ")
}

// driverSaid is the driver's last message about the finding's attachment.
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
