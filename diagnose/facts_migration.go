package diagnose

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/volume-doctor/kubectl-volume-doctor/reconcile"
)

// migratedTo is the driver to which an in-tree plugin that could attach has
// moved. Flexvolumes, FC, iSCSI and RBD have not.
var migratedTo = map[string]string{
	"kubernetes.io/aws-ebs":        "ebs.csi.aws.com",
	"kubernetes.io/azure-disk":     "disk.csi.azure.com",
	"kubernetes.io/cinder":         "cinder.csi.openstack.org",
	"kubernetes.io/gce-pd":         "pd.csi.storage.gke.io",
	"kubernetes.io/vsphere-volume": "csi.vsphere.vmware.com",
}

// inTreeName splits a unique name that an in-tree plugin gave, into the plugin
// and what it calls the disk; false for any other name.
func inTreeName(name corev1.UniqueVolumeName) (plugin, disk string, ok bool) {
	vendor, rest, _ := strings.Cut(string(name), "/")
	kind, disk, ok := strings.Cut(rest, "/")
	if !ok {
		return "", "", false
	}
	plugin = string(name)[:len(vendor)+1+len(kind)]
	return plugin, disk, migratedTo[plugin] != ""
}

// oneDisk says whether an in-tree name and a CSI one mean the same disk. The
// two differ in what stands before the disk's own id, and Azure's in case.
func oneDisk(inTree, csi corev1.UniqueVolumeName) bool {
	plugin, disk, ok := inTreeName(inTree)
	driver, handle, isCSI := reconcile.ParseCSI(csi)
	return ok && isCSI && migratedTo[plugin] == driver && strings.EqualFold(lastPart(disk), lastPart(handle))
}

func lastPart(path string) string { return path[strings.LastIndex(path, "/")+1:] }

// releaseKnown says whether the controller's behaviours are those of the
// cluster's own release, and not a guess.
func (p *Pass) releaseKnown() bool {
	_, err := version.ParseGeneric(p.Snapshot.Source.ServerVersion)
	return err == nil && !reconcile.TooOld(p.Snapshot.Source.ServerVersion)
}

// underOldName says that the node lists a CSI volume by the name of an in-tree
// plugin that the controller still has: that is migration-name-switch.
func (p *Pass) underOldName(node *corev1.Node, volume corev1.UniqueVolumeName) bool {
	return slices.ContainsFunc(node.Status.VolumesAttached, func(v corev1.AttachedVolume) bool {
		return oneDisk(v.Name, volume) && !p.noPlugin(reconcile.VolumeNode{Volume: v.Name, Node: nodeName(node)})
	})
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
