package diagnose

import "fmt"

var driverRenamed = Check{
	Code:     "VD607",
	Name:     "driver-renamed",
	Title:    "Volumes name a driver that is now installed under another name",
	Severity: Error,
	Needs:    goneNeeds,
	Run:      runDriverRenamed,
}

func runDriverRenamed(p *Pass) {
	for _, driver := range p.attachers() {
		tasks, now := p.goneTasks(driver), p.successor(driver)
		if len(tasks) == 0 || now == "" || p.migrated(tasks) {
			continue
		}
		f := p.goneFinding(driver, tasks)
		f.Message = fmt.Sprintf("The driver %s is not installed, but %s is: %s", driver, now, p.queue(tasks))
		f.Cause = fmt.Sprintf("the driver was deployed anew under the name %s, as the names suggest; a volume keeps the name under which it was made", now)
		f.Evidence = append(f.Evidence, Evidence{"csidriver/" + now, "metadata.name", "is installed"})
		f.Advice = fmt.Sprintf("deploy the driver under its old name %s again, beside the new one if need be: what is attached can be detached only so, and a "+
			"volume's driver cannot be changed. To move for good, detach first, then make each volume anew with the new name and policy Retain", driver)
		p.Report(f)
	}
}
