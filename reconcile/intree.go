package reconcile

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

var inTreePlugins = []struct {
	name      string
	behaviour Behaviour
}{
	{AWSEBSPlugin, InTreeAWSEBS},
	{AzureDiskPlugin, InTreeAzureDisk},
	{GCEPDPlugin, InTreeGCEPD},
	{VSpherePlugin, InTreeVSphere},
	{RBDPlugin, InTreeRBD},
}

// inTree returns the plugin that takes the volume's own source, and that plugin's name for
// the volume (GetVolumeName); "" where no in-tree plugin takes the source.
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
		return AWSEBSPlugin, source.AWSElasticBlockStore.VolumeID
	case source.AzureDisk != nil:
		return AzureDiskPlugin, source.AzureDisk.DataDiskURI
	case source.GCEPersistentDisk != nil:
		return GCEPDPlugin, source.GCEPersistentDisk.PDName
	case source.VsphereVolume != nil:
		return VSpherePlugin, source.VsphereVolume.VolumePath
	case source.RBD != nil:
		return RBDPlugin, fmt.Sprintf("%s:%s", source.RBD.RBDPool, source.RBD.RBDImage)
	default:
		return "", ""
	}
}
