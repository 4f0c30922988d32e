package reconcile

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// The in-tree plugins that a release may have registered. Their volumes are
// attached without a VolumeAttachment.
const (
	awsEBSPlugin    = "kubernetes.io/aws-ebs"
	azureDiskPlugin = "kubernetes.io/azure-disk"
	gcePDPlugin     = "kubernetes.io/gce-pd"
	vspherePlugin   = "kubernetes.io/vsphere-volume"
	rbdPlugin       = "kubernetes.io/rbd"
	// portworxPlugin cannot attach: it matters for its migration only.
	portworxPlugin = "kubernetes.io/portworx-volume"
)

var inTreePlugins = []struct {
	name      string
	behaviour Behaviour
}{
	{awsEBSPlugin, InTreeAWSEBS},
	{azureDiskPlugin, InTreeAzureDisk},
	{gcePDPlugin, InTreeGCEPD},
	{vspherePlugin, InTreeVSphere},
	{rbdPlugin, InTreeRBD},
}

// inTree is the plugin that takes the volume's own source, and what that plugin
// calls the volume (GetVolumeName); "" where the source is none of theirs.
func (s *VolumeSpec) inTree() (plugin, name string) {
	source := corev1.PersistentVolumeSource{}
	if s.PV != nil {
		source = s.PV.Spec.PersistentVolumeSource
	} else {
		v := s.Inline
		source.AWSElasticBlockStore, source.AzureDisk = v.AWSElasticBlockStore, v.AzureDisk
		source.GCEPersistentDisk, source.VsphereVolume = v.GCEPersistentDisk, v.VsphereVolume
		if v.RBD != nil {
			source.RBD = &corev1.RBDPersistentVolumeSource{RBDPool: v.RBD.RBDPool, RBDImage: v.RBD.RBDImage}
		}
	}
	switch {
	case source.AWSElasticBlockStore != nil:
		return awsEBSPlugin, source.AWSElasticBlockStore.VolumeID
	case source.AzureDisk != nil:
		return azureDiskPlugin, source.AzureDisk.DataDiskURI
	case source.GCEPersistentDisk != nil:
		return gcePDPlugin, source.GCEPersistentDisk.PDName
	case source.VsphereVolume != nil:
		return vspherePlugin, source.VsphereVolume.VolumePath
	case source.RBD != nil:
		return rbdPlugin, fmt.Sprintf("%s:%s", source.RBD.RBDPool, source.RBD.RBDImage)
	default:
		return "", ""
	}
}
