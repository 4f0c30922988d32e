package driver

import (
	"fmt"

	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/check"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/facts"
	"github.com/volume-doctor/kubectl-volume-doctor/diagnose/finding"
	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

var DriverRenamed = check.Check{
	Code:     "VD607",
	Name:     "driver-renamed",
	Title:    "Volumes name a driver that is now installed under another name",
	Severity: finding.Error,
	Needs:    check.AttachmentKinds(snapshot.CSINodes, snapshot.Leases),
	Yields: []check.Yield{
		{To: "VD612", Key: (*facts.View).DriverOf},
	},
	Never: "delete the volume while its policy is Delete: the data goes with it",
	Run:   runDriverRenamed,
}

func runDriverRenamed(p *check.Run) {
	for _, driver := range p.Attachers() {
		if p.Meant(driver) != "" {
			driverMisspelt(p, driver)
			continue
		}
		tasks, now := goneTasks(p.View, driver), p.Successor(driver)
		if len(tasks) == 0 || now == "" {
			continue
		}
		f := goneFinding(p.View, driver, tasks)
		f.Message = fmt.Sprintf("Driver %s is not installed; %s is", driver, now)
		f.Detail = queue(p.View, tasks)
		f.Cause = fmt.Sprintf("the driver was deployed again under the name %s, as the names suggest; a volume keeps the name under which it was made", now)
		f.Evidence = append(f.Evidence, finding.Evidence{Object: "csidriver/" + now, Field: "metadata.name", Value: "is installed"})
		f.Advice = fmt.Sprintf("{change} deploy the driver as %s again, beside the new one if need be: nothing else can detach what is attached; "+
			"{later} to move for good, {final} detach first, then recreate each volume with the new name and policy Retain", driver)
		p.Report(f)
	}
}

// driverMisspelt reports a driver that was never seen here and whose name differs little from
// an installed one's. It needs no grace: a driver that restarts or is upgraded keeps its name.
func driverMisspelt(p *check.Run, driver string) {
	tasks, meant := p.Older(p.Tasks(driver), facts.ListsGrace), p.Mistyped(driver)
	if len(tasks) == 0 || meant == "" {
		return
	}
	f := goneFinding(p.View, driver, tasks)
	f.Message = fmt.Sprintf("Driver %s is not installed; %s is", driver, meant)
	f.Detail = "their names are nearly the same; " + queue(p.View, tasks)
	f.Cause = fmt.Sprintf("the PersistentVolume was written with a misspelt driver name, as the names suggest; or the driver calls itself %s and its CSIDriver "+
		"or its StorageClass does not", meant)
	f.Evidence = append(f.Evidence, finding.Evidence{Object: "csidriver/" + meant, Field: "metadata.name", Value: "is installed"})
	f.Advice = fmt.Sprintf("{check} compare the names letter by letter. If %s is meant, set the PersistentVolume's policy to Retain, {final} delete it and its claim, and "+
		"recreate both with that name: a volume's driver cannot be changed", meant)
	p.Report(f)
}
