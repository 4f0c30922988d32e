package driver

import (
	"fmt"
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var CsiDriverMissing = check.Check{
	Code:     "VD603",
	Name:     "csidriver-missing",
	Title:    "A driver without a CSIDriver object is asked to attach, and has nobody who could",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	Never:    "make up a CSIDriver: attachRequired: false lets two nodes write",
	Run:      runCSIDriverMissing,
}

// csiDriverGrace is how long an installation may take from the node plugins to the CSIDriver
// object and the attacher.
const csiDriverGrace = facts.RolloutGrace

func runCSIDriverMissing(p *check.Run) {
	for _, driver := range p.Attachers() {
		if p.AttachesByMistake(driver) {
			askedInVain(p, driver)
		}
	}
}

// askedInVain reports the driver if pods wait for volumes that it is asked to attach.
func askedInVain(p *check.Run, driver string) {
	var list []facts.PodVolume
	var vas []facts.Attachment
	for _, va := range p.Attachments() {
		row := p.World.Desired.Find(va.VolumeNode)
		if va.Spec.Attacher != driver || !va.Ours() || row == nil || row.Spec.Migrated || !p.Lasted(va.CreationTimestamp, csiDriverGrace) ||
			!facts.Registers(p.Snapshot.CSINode(va.Node), driver) {
			continue // an in-tree volume that has moved to CSI needs no CSIDriver; csinode-driver-missing comes first
		}
		for _, pod := range p.WaitingPods(va.VolumeNode) {
			list, vas = append(list, facts.PodVolume{Pod: pod, Volume: va.Volume, Name: p.ShortVolumeOf(va)}), append(vas, va)
		}
	}
	pods := facts.LongestFirst(facts.PodsOf(list))
	if len(pods) == 0 {
		return
	}
	i := slices.IndexFunc(list, func(v facts.PodVolume) bool { return v.Pod == pods[0] })
	first, va := list[i], vas[i]
	f := finding.Finding{
		Subject: finding.Object{Kind: "CSIDriver", Name: driver},
		Pods:    facts.PodNames(pods),
		Since:   &va.CreationTimestamp,
		Message: fmt.Sprintf("Pod %s waits on node %s: driver %s has no CSIDriver object", facts.PodName(first.Pod), va.Node, driver),
		Detail: finding.Clauses(fmt.Sprintf("it waits for volume %s; no object shows that the driver attaches any", first.Name),
			facts.Alike(pods)),
		Cause: "without a CSIDriver object the controller has every volume of the driver attached; a driver that needs no attach says so there, with " +
			"attachRequired: false",
		Evidence: []finding.Evidence{
			{Object: "csidriver/" + driver, Field: "metadata.name", Value: "there is no such object"},
			{Object: va.Object(), Field: "metadata", Value: fmt.Sprintf("made %s; no attacher has put its finalizer on it, and there is no error", facts.Stamp(va.CreationTimestamp))},
			{Object: "leases", Field: "metadata.name", Value: "none is called " + reconcile.AttacherLeaseName(driver)},
		},
		SelfHeals: finding.SelfHeals{Because: "nobody answers; the controller asks again for ever"},
		Advice:    fmt.Sprintf("{change} install the CSIDriver object as the release of %s ships it; where that object says attachRequired: false, {final} end the pod afterwards: its successor mounts without an attachment", driver),
	}
	p.Report(f)
}
