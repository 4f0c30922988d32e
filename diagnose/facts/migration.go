package facts

import (
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// MigratedTo is the CSI driver that replaces an in-tree plugin that could attach. Flexvolumes,
// FC, iSCSI and RBD have none.
var MigratedTo = map[string]string{
	reconcile.AWSEBSPlugin:    "ebs.csi.aws.com",
	reconcile.AzureDiskPlugin: "disk.csi.azure.com",
	reconcile.CinderPlugin:    "cinder.csi.openstack.org",
	reconcile.GCEPDPlugin:     "pd.csi.storage.gke.io",
	reconcile.VSpherePlugin:   "csi.vsphere.vmware.com",
}

// InTreeName splits a unique name of a migrated in-tree plugin into the plugin and its name for
// the disk; false for any other name.
func InTreeName(name corev1.UniqueVolumeName) (plugin, disk string, ok bool) {
	vendor, rest, _ := strings.Cut(string(name), "/")
	kind, disk, ok := strings.Cut(rest, "/")
	if !ok {
		return "", "", false
	}
	plugin = string(name)[:len(vendor)+1+len(kind)]
	return plugin, disk, MigratedTo[plugin] != ""
}

// OneDisk reports whether an in-tree name and a CSI name mean the same disk. They differ in the
// path before the disk's own id, and Azure's in case.
func OneDisk(inTree, csi corev1.UniqueVolumeName) bool {
	plugin, disk, ok := InTreeName(inTree)
	driver, handle, isCSI := reconcile.ParseCSI(csi)
	return ok && isCSI && MigratedTo[plugin] == driver && strings.EqualFold(lastPart(disk), lastPart(handle))
}

func lastPart(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// ReleaseKnown reports whether the controller is modelled by the cluster's own release, and not
// by a guess.
func (p *View) ReleaseKnown() bool {
	_, err := version.ParseGeneric(p.Snapshot.Source.ServerVersion)
	return err == nil && !reconcile.TooOld(p.Snapshot.Source.ServerVersion)
}

// UnderOldName reports whether the node lists a CSI volume by the name of an in-tree plugin
// that the controller still has: that is migration-name-switch.
func (p *View) UnderOldName(node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	_, handle, isCSI := reconcile.ParseCSI(volume)
	return isCSI && slices.ContainsFunc(p.nodeVolumes(node).inTree[DiskKey(handle)], func(name corev1.UniqueVolumeName) bool {
		return OneDisk(name, volume) && !p.NoPlugin(reconcile.VolumeNode{Volume: name, Node: NodeName(node)})
	})
}

// Migrated reports whether any of the tasks is about a volume of an in-tree plugin.
func (p *View) Migrated(tasks []Task) bool {
	return slices.ContainsFunc(tasks, func(t Task) bool { return p.InTree(t.VolumeAttachment) })
}

// InTree reports whether the volume belongs to an in-tree plugin that has moved to CSI. A
// volume that is defined in a pod has no PV; its attachment carries the translation.
func (p *View) InTree(va *storagev1.VolumeAttachment) bool {
	if va.Spec.Source.PersistentVolumeName == nil {
		return va.Spec.Source.InlineVolumeSpec != nil
	}
	pv := p.Snapshot.Volume(*va.Spec.Source.PersistentVolumeName)
	return pv != nil && InTreePlugin(pv) != ""
}

// InTreePlugin is the in-tree plugin of the volume; "" where it has none that has moved to CSI.
func InTreePlugin(pv *corev1.PersistentVolume) string {
	switch src := pv.Spec.PersistentVolumeSource; {
	case src.AWSElasticBlockStore != nil:
		return reconcile.AWSEBSPlugin
	case src.GCEPersistentDisk != nil:
		return reconcile.GCEPDPlugin
	case src.AzureDisk != nil:
		return reconcile.AzureDiskPlugin
	case src.AzureFile != nil:
		return reconcile.AzureFilePlugin
	case src.Cinder != nil:
		return reconcile.CinderPlugin
	case src.VsphereVolume != nil:
		return reconcile.VSpherePlugin
	case src.PortworxVolume != nil:
		return reconcile.PortworxPlugin
	default:
		return ""
	}
}

// MigratedAndNotCollected reports whether the attachment's volume has moved to CSI, on a
// release that does not find such attachments when it starts.
func (p *View) MigratedAndNotCollected(va Attachment) bool {
	v, err := version.ParseGeneric(p.Snapshot.Source.ServerVersion)
	return err == nil && overlooksMigrated(v) && p.InTree(va.VolumeAttachment)
}

// overlooksMigrated reports whether the release lacks kubernetes pull request 101737 and its
// backports.
func overlooksMigrated(v *version.Version) bool {
	mended := map[uint]uint{19: 12, 20: 8, 21: 2}
	if v.Major() != 1 || v.Minor() >= 22 {
		return false
	}
	patch, ok := mended[v.Minor()]
	return !ok || v.Patch() < patch
}

// HasMigrated reports whether the CSINode's kubelet has moved the in-tree plugin to CSI.
func HasMigrated(csiNode *storagev1.CSINode, plugin string) bool {
	return slices.Contains(strings.Split(csiNode.Annotations[corev1.MigratedPluginsAnnotationKey], ","), plugin)
}

var keptMigrated KeptBy[string, bool]

// MigratedElsewhere reports whether the kubelet of any node has moved the plugin to CSI.
func (p *View) MigratedElsewhere(plugin string) bool {
	return keptMigrated.Of(p, plugin, func(p *View, plugin string) bool {
		return slices.ContainsFunc(p.Snapshot.CSINodes, func(n *storagev1.CSINode) bool { return HasMigrated(n, plugin) })
	})
}

// NoPlugin reports whether the controller is to detach the volume and has no plugin for it.
func (p *View) NoPlugin(pair reconcile.VolumeNode) bool {
	d := p.Plan.Decision(pair)
	return d != nil && d.Verb == reconcile.Blocked && d.Reason == reconcile.NoPlugin
}

// AttachesByMistake reports whether the driver's volumes are attached only because it has no
// CSIDriver. Nodes have the driver registered, and it has no trace of an attacher: no lease,
// finalizer or answer, and no attacher pod that is not another driver's.
func (p *View) AttachesByMistake(driver string) bool {
	finalizer := reconcile.AttacherFinalizer(driver)
	return p.Snapshot.CSIDriver(driver) == nil &&
		slices.ContainsFunc(p.Snapshot.CSINodes, func(n *storagev1.CSINode) bool { return Registers(n, driver) }) &&
		!slices.ContainsFunc(p.Snapshot.Leases, func(l *coordinationv1.Lease) bool {
			return strings.HasPrefix(l.Name, reconcile.AttacherLeaseName(driver))
		}) &&
		!slices.ContainsFunc(p.Snapshot.Volumes, func(pv *corev1.PersistentVolume) bool { return slices.Contains(pv.Finalizers, finalizer) }) &&
		!slices.ContainsFunc(p.Snapshot.VolumeAttachments, func(va *storagev1.VolumeAttachment) bool {
			return va.Spec.Attacher == driver && (va.Status.Attached || va.Status.AttachError != nil || va.Status.DetachError != nil ||
				len(va.Finalizers) > 0 || len(va.Annotations) > 0)
		}) &&
		len(p.UnclaimedAttachers()) == 0
}
