package diagnose

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

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

// migrated says whether any of the tasks is about a volume of an in-tree plugin.
func (p *Pass) migrated(tasks []task) bool {
	return slices.ContainsFunc(tasks, func(t task) bool { return p.inTree(t.VolumeAttachment) })
}

// inTree says whether the volume is an in-tree plugin's that has moved to CSI.
// One that stood in a pod has no PV; its attachment carries the translation.
func (p *Pass) inTree(va *storagev1.VolumeAttachment) bool {
	if va.Spec.Source.PersistentVolumeName == nil {
		return va.Spec.Source.InlineVolumeSpec != nil
	}
	pv := p.Snapshot.Volume(*va.Spec.Source.PersistentVolumeName)
	return pv != nil && inTreePlugin(pv) != ""
}

// inTreePlugin is the in-tree plugin of a volume, where it is one that has moved
// to CSI.
func inTreePlugin(pv *corev1.PersistentVolume) string {
	switch src := pv.Spec.PersistentVolumeSource; {
	case src.AWSElasticBlockStore != nil:
		return "kubernetes.io/aws-ebs"
	case src.GCEPersistentDisk != nil:
		return "kubernetes.io/gce-pd"
	case src.AzureDisk != nil:
		return "kubernetes.io/azure-disk"
	case src.AzureFile != nil:
		return "kubernetes.io/azure-file"
	case src.Cinder != nil:
		return "kubernetes.io/cinder"
	case src.VsphereVolume != nil:
		return "kubernetes.io/vsphere-volume"
	case src.PortworxVolume != nil:
		return "kubernetes.io/portworx-volume"
	default:
		return ""
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
