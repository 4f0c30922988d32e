// Package driver has the checks about CSI drivers, their attachers and node plugins.
package driver

import (
	"fmt"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var DriverUninstalled = check.Check{
	Code:     "VD601",
	Name:     "driver-uninstalled",
	Title:    "A driver is no longer installed, and attachments of its volumes wait for it",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	Yields: []check.Yield{
		{To: "VD607", Key: (*facts.View).DriverOf},
		{To: "VD612", Key: (*facts.View).DriverOf},
	},
	Never: "take finalizers off: the volumes stay attached, and nothing says so",
	Run:   runDriverUninstalled,
}

// goneGrace is how long a driver must have left no trace. A judgement: an upgrade that removes
// and reinstalls it, with all its images pulled, ends within it.
const goneGrace = 15 * time.Minute

func runDriverUninstalled(p *check.Run) {
	for _, driver := range p.Attachers() {
		tasks := goneTasks(p.View, driver)
		if len(tasks) == 0 {
			continue
		}
		f := goneFinding(p.View, driver, tasks)
		f.Cause = "the driver was uninstalled while volumes of it were attached or wanted; nothing else can attach or detach them"
		f.Advice = "{change} install the driver again; to uninstall it for good, {final} remove its volumes first"
		p.Report(f)
	}
}

// goneTasks are the tasks of a driver without a trace: no CSIDriver, no node that lists it, no
// renewed lease and no recent answer, for as long as the tasks have waited. A driver that merely
// restarts keeps one of these; one whose attacher is out of sight still answers.
func goneTasks(p *facts.View, driver string) []facts.Task {
	if p.Installed(driver) || p.Age(p.LastAnswer(driver)) < goneGrace {
		return nil
	}
	if lease := p.AttacherLease(driver); lease != nil && p.Age(facts.Renewed(lease)) < goneGrace {
		return nil
	}
	return p.Older(p.Tasks(driver), goneGrace)
}

// goneFinding is the common part of the findings about a driver that is not there.
func goneFinding(p *facts.View, driver string, tasks []facts.Task) finding.Finding {
	pods := taskPods(p, tasks)
	f := finding.Finding{
		Subject: p.DriverObject(driver),
		Pods:    facts.PodNames(pods),
		Since:   &tasks[0].Since,
		Message: fmt.Sprintf("Driver %s is not installed, and volumes need it", driver),
		Detail:  queue(p, tasks),
		Evidence: []finding.Evidence{
			{Object: "csidriver/" + driver, Field: "metadata.name", Value: "there is no such object"},
			{Object: "csinodes", Field: "spec.drivers", Value: fmt.Sprintf("none of %d lists it", len(p.Snapshot.CSINodes))},
		},
		SelfHeals: finding.SelfHeals{Because: "the driver has no attacher; nobody else handles these VolumeAttachments"},
	}
	if lease := p.AttacherLease(driver); lease != nil {
		f.Evidence = append(f.Evidence, facts.LeaseEvidence(lease))
	}
	f.Evidence = append(f.Evidence, taskEvidence(tasks)...)
	if n := attachedVolumes(p, driver); n > 0 {
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "volumeattachments", Field: "status.attached", Value: fmt.Sprintf("true of %d more of the driver's", n)})
	}
	if len(pods) == 0 {
		f.Severity = finding.Warning
	}
	return f
}

func attachedVolumes(p *facts.View, driver string) int {
	n := 0
	for _, va := range p.Snapshot.VolumeAttachments {
		if va.Spec.Attacher == driver && facts.Holds(va) {
			n++
		}
	}
	return n
}
