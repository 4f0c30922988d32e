package diagnose

import (
	"fmt"
	"slices"
	"strings"
)

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

// successor is the driver that is installed in the place of one that is not,
// as far as names tell; "" where none does.
func (p *Pass) successor(driver string) string {
	var names []string
	for _, d := range p.Snapshot.CSIDrivers {
		names = append(names, d.Name)
	}
	for _, n := range p.Snapshot.CSINodes {
		for _, d := range n.Spec.Drivers {
			names = append(names, d.Name)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if renamedTo(driver, name) {
			return name
		}
	}
	return ""
}

// renames are those of drivers whose names have nothing in common.
var renames = map[string]string{
	"com.amazon.aws.csi.ebs": "ebs.csi.aws.com",
	"com.google.csi.gcepd":   "pd.csi.storage.gke.io",
	"csi-cephfsplugin":       "cephfs.csi.ceph.com",
	"csi-cinderplugin":       "cinder.csi.openstack.org",
	"csi-hostpath":           "hostpath.csi.k8s.io",
	"csi-rbdplugin":          "rbd.csi.ceph.com",
	"io.rancher.longhorn":    "driver.longhorn.io",
}

// commonLabels is how much of two names must be equal, behind a first part of
// each one's own, for them to be one driver of two deployments. Fewer would take
// rbd.csi.ceph.com and cephfs.csi.ceph.com for one.
const commonLabels = 4

// renamedTo says whether the two names are one driver's: one has the other's and
// a prefix before it, as an operator's namespace; both have the same parts in
// another order; or they differ in such a prefix.
func renamedTo(before, now string) bool {
	if known, ok := renames[before]; ok && (now == known || strings.HasSuffix(now, "."+known)) {
		return true
	}
	a, b := strings.Split(before, "."), strings.Split(now, ".")
	if len(a) < 3 || len(b) < 3 {
		return false
	}
	if strings.HasSuffix(before, "."+now) || strings.HasSuffix(now, "."+before) {
		return true
	}
	if len(a) == len(b) && len(a) > commonLabels && slices.Equal(a[1:], b[1:]) {
		return true
	}
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
