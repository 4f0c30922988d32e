package diagnose

import (
	"fmt"
	"time"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var driverUninstalled = Check{
	Code:     "VD601",
	Name:     "driver-uninstalled",
	Title:    "A driver is no longer installed, and attachments of its volumes wait for it",
	Severity: Error,
	Needs:    goneNeeds,
	Run:      runDriverUninstalled,
}

// goneNeeds are the kinds that show whether a driver is there, and what waits
// for it.
var goneNeeds = []snapshot.Kind{
	snapshot.Pods, snapshot.Nodes, snapshot.Claims, snapshot.Volumes, snapshot.VolumeAttachments, snapshot.CSIDrivers, snapshot.CSINodes, snapshot.Leases,
}

// goneSettles is how long a driver must have been without a trace: an upgrade
// that takes it off and puts it on again, all its images pulled, ends within it.
const goneSettles = 15 * time.Minute

func runDriverUninstalled(p *Pass) {
	for _, driver := range p.attachers() {
		tasks := p.goneTasks(driver)
		if len(tasks) == 0 || p.migrated(tasks) || p.successor(driver) != "" {
			continue // migration-no-csi-driver and driver-renamed say more
		}
		f := p.goneFinding(driver, tasks)
		f.Cause = "the driver was uninstalled while volumes of it were attached or wanted; nothing else can attach or detach them"
		f.Advice = "install the driver again, so that it can detach what it attached; only then remove its volumes, and the driver last. To take " +
			"finalizers off instead leaves the volumes attached in the storage system with nothing to tell so"
		p.Report(f)
	}
}

// goneTasks are the tasks of a driver of which there is no trace: no CSIDriver,
// no node that has it, no lease that is renewed, no answer, and the tasks
// themselves have waited as long. A driver that merely restarts keeps one of
// these, and one whose attacher is out of sight gives answers.
func (p *Pass) goneTasks(driver string) []task {
	if p.installed(driver) || p.Age(p.lastAnswer(driver)) < goneSettles {
		return nil
	}
	if lease := p.attacherLease(driver); lease != nil && p.Age(renewed(lease)) < goneSettles {
		return nil
	}
	return p.older(p.tasks(driver), goneSettles)
}

// goneFinding is what the failures of a driver that is not there have in common.
func (p *Pass) goneFinding(driver string, tasks []task) Finding {
	pods := p.taskPods(tasks)
	f := Finding{
		Subject: p.driverObject(driver),
		Pods:    podNames(pods),
		Since:   &tasks[0].since,
		Message: fmt.Sprintf("The driver %s is not installed: %s", driver, p.queue(tasks)),
		Evidence: []Evidence{
			{"csidriver/" + driver, "metadata.name", "there is no such object"},
			{"csinodes", "spec.drivers", fmt.Sprintf("none of %d lists it", len(p.Snapshot.CSINodes))},
		},
		SelfHeals: SelfHeals{Because: "only the driver's own attacher handles these VolumeAttachments, and there is none"},
	}
	if lease := p.attacherLease(driver); lease != nil {
		f.Evidence = append(f.Evidence, leaseEvidence(lease))
	}
	f.Evidence = append(f.Evidence, taskEvidence(tasks)...)
	if n := p.attachedVolumes(driver); n > 0 {
		f.Evidence = append(f.Evidence, Evidence{"volumeattachments", "status.attached", fmt.Sprintf("true of %d more of the driver's", n)})
	}
	if len(pods) == 0 {
		f.Severity = Warning
	}
	return f
}

func (p *Pass) attachedVolumes(driver string) int {
	n := 0
	for _, va := range p.Snapshot.VolumeAttachments {
		if va.Spec.Attacher == driver && holds(va) {
			n++
		}
	}
	return n
}
