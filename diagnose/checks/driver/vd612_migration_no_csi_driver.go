package driver

import (
	"fmt"
	"slices"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var MigrationNoCSIDriver = check.Check{
	Code:     "VD612",
	Name:     "migration-no-csi-driver",
	Title:    "In-tree volumes have moved to CSI, and the CSI driver is not installed",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	Never:    "delete the volumes or their VolumeAttachments: they only lack the driver",
	Run:      runMigrationNoCSIDriver,
}

func runMigrationNoCSIDriver(p *check.Run) {
	for _, driver := range p.Attachers() {
		tasks := goneTasks(p.View, driver)
		if len(tasks) == 0 || !migrated(p.View, tasks) {
			continue
		}
		f := goneFinding(p.View, driver, tasks)
		f.Message = fmt.Sprintf("Driver %s, to which in-tree volumes have moved, is not installed", driver)
		f.Detail = queue(p.View, tasks)
		f.Cause = fmt.Sprintf("the release no longer attaches volumes of the in-tree plugin itself: it translates them, and leaves them to %s", driver)
		for _, t := range tasks {
			if name := t.Spec.Source.PersistentVolumeName; name != nil && p.InTree(t.VolumeAttachment) {
				f.Evidence = append(f.Evidence, finding.Evidence{Object: "persistentvolume/" + *name, Field: "spec", Value: "is of the in-tree plugin " + facts.InTreePlugin(p.Snapshot.Volume(*name))})
				break
			}
		}
		f.Advice = fmt.Sprintf("{change} install the driver %s, with the permissions that it needs at the provider; all volumes that wait for it then follow", driver)
		p.Report(f)
	}
}

// migrated reports whether any of the tasks is about a volume of an in-tree plugin.
func migrated(p *facts.View, tasks []facts.Task) bool {
	return slices.ContainsFunc(tasks, func(t facts.Task) bool { return p.InTree(t.VolumeAttachment) })
}
