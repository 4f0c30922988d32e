package diagnose

import "fmt"

var migrationNoCSIDriver = Check{
	Code:     "VD612",
	Name:     "migration-no-csi-driver",
	Title:    "In-tree volumes have moved to CSI, and the CSI driver is not installed",
	Severity: Error,
	Needs:    goneNeeds,
	Run:      runMigrationNoCSIDriver,
}

func runMigrationNoCSIDriver(p *Pass) {
	for _, driver := range p.attachers() {
		tasks := p.goneTasks(driver)
		if len(tasks) == 0 || !p.migrated(tasks) {
			continue
		}
		f := p.goneFinding(driver, tasks)
		f.Message = fmt.Sprintf("The driver %s, to which in-tree volumes have moved, is not installed: %s", driver, p.queue(tasks))
		f.Cause = fmt.Sprintf("the release no longer attaches volumes of the in-tree plugin itself: it translates them, and leaves them to %s", driver)
		for _, t := range tasks {
			if name := t.Spec.Source.PersistentVolumeName; name != nil && p.inTree(t.VolumeAttachment) {
				f.Evidence = append(f.Evidence, Evidence{"persistentvolume/" + *name, "spec", "is of the in-tree plugin " + inTreePlugin(p.Snapshot.Volume(*name))})
				break
			}
		}
		f.Advice = fmt.Sprintf("install the driver %s, with the permissions that it needs at the provider; all volumes of the kind wait for it, and follow "+
			"by themselves. Leave the volumes and their VolumeAttachments as they are", driver)
		p.Report(f)
	}
}
