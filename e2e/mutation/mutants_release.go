package main

import "github.com/volume-doctor/kubectl-volume-doctor/e2e/conformance"

// Releases in which a branch is alive.
var (
	of1_26_9 = []conformance.Release{"v1.26.9"} // just before FailedDetachIsUncertain
	of1_26   = []conformance.Release{"v1.26.15"}
	of1_28   = []conformance.Release{"v1.28.15"}
	of1_29   = []conformance.Release{"v1.29.15"}
	of1_30   = []conformance.Release{"v1.30.14"}
	of1_33   = []conformance.Release{"v1.33.13"}
	of1_35   = []conformance.Release{"v1.35.4"}
	of1_36   = []conformance.Release{"v1.36.3"}
)

// inTreeMutants are about the in-tree plugins of the releases that had them.
var inTreeMutants = []Mutant{
	{Name: "aws-name", Branch: "awsElasticBlockStorePlugin.GetVolumeName", Releases: of1_26,
		Old: `return AWSEBSPlugin, source.AWSElasticBlockStore.VolumeID`, New: `return AWSEBSPlugin, source.AWSElasticBlockStore.VolumeID + "x"`},
	{Name: "azure-name", Branch: "azureDataDiskPlugin.GetVolumeName: the URI", Releases: of1_26,
		Old: `source.AzureDisk.DataDiskURI`, New: `source.AzureDisk.DiskName`},
	{Name: "gce-name", Branch: "gcePersistentDiskPlugin.GetVolumeName", Releases: of1_26,
		Old: `source.GCEPersistentDisk.PDName`, New: `source.GCEPersistentDisk.PDName + "x"`},
	{Name: "vsphere-name", Branch: "vsphereVolumePlugin.GetVolumeName", Releases: of1_28,
		Old: `source.VsphereVolume.VolumePath`, New: `source.VsphereVolume.VolumePath + "x"`},
	{Name: "rbd-name", Branch: "RBDPlugin.GetVolumeName: pool:image", Releases: of1_30,
		Old: `fmt.Sprintf("%s:%s"`, New: `fmt.Sprintf("%s/%s"`},
	{Name: "inline-aws", Branch: "awsElasticBlockStorePlugin.CanSupport: inline", Releases: of1_26,
		Old: `= v.AWSElasticBlockStore, v.AzureDisk`, New: `= nil, v.AzureDisk`},
	{Name: "inline-azure", Branch: "azureDataDiskPlugin.CanSupport: inline", Releases: of1_26,
		Old: `= v.AWSElasticBlockStore, v.AzureDisk`, New: `= v.AWSElasticBlockStore, nil`},
	{Name: "inline-gce", Branch: "gcePersistentDiskPlugin.CanSupport: inline", Releases: of1_26,
		Old: `= v.GCEPersistentDisk, v.VsphereVolume`, New: `= nil, v.VsphereVolume`},
	{Name: "inline-vsphere", Branch: "vsphereVolumePlugin.CanSupport: inline", Releases: of1_28,
		Old: `= v.GCEPersistentDisk, v.VsphereVolume`, New: `= v.GCEPersistentDisk, nil`},
	{Name: "inline-rbd", Branch: "RBDPlugin.CanSupport: inline", Releases: of1_30,
		Old: `if v.RBD != nil {`, New: `if false {`},
	{Name: "inline-rbd-name", Branch: "RBDPlugin.GetVolumeName: inline", Releases: of1_30,
		Old: `RBDImage: v.RBD.RBDImage}`, New: `RBDImage: v.RBD.RBDPool}`},
}

const between = "The bound is moved over minors of which no controller is built here: the releases compared lie on both sides of the old and of the new bound alike. The source that the row names decides it, and the table's unit test holds it."

// releaseMutants move each bound of the table of behaviours to the next release
// that is compared, on either side, and some to a place in between.
var releaseMutants = []Mutant{
	{Name: "switch-since-1.28", Branch: "1.30: --disable-force-detach-on-timeout", Releases: of1_28,
		Old: `ForceDetachSwitch, since: "1.30.0"`, New: `ForceDetachSwitch, since: "1.28.0"`},
	{Name: "switch-since-1.31", Branch: "1.30: --disable-force-detach-on-timeout", Releases: of1_30,
		Old: `ForceDetachSwitch, since: "1.30.0"`, New: `ForceDetachSwitch, since: "1.31.0"`},
	{Name: "switch-since-1.29", Branch: "1.30: --disable-force-detach-on-timeout", Releases: of1_29,
		Old: `ForceDetachSwitch, since: "1.30.0"`, New: `ForceDetachSwitch, since: "1.29.0"`},
	{Name: "keeps-until-1.30", Branch: "1.31: keep-terminated-pod-volumes went", Releases: of1_30,
		Old: `KeepsTerminatedPodVolumes, until: "1.31.0"`, New: `KeepsTerminatedPodVolumes, until: "1.30.0"`},
	{Name: "keeps-until-1.34", Branch: "1.31: keep-terminated-pod-volumes went", Releases: of1_33,
		Old: `KeepsTerminatedPodVolumes, until: "1.31.0"`, New: `KeepsTerminatedPodVolumes, until: "1.34.0"`},
	{Name: "asks-node-until-1.30", Branch: "1.31: IsMigrationCompleteForPlugin", Releases: of1_30,
		Old: `MigrationAsksNode, until: "1.31.0"`, New: `MigrationAsksNode, until: "1.30.0"`},
	{Name: "asks-node-until-1.34", Branch: "1.31: IsMigrationCompleteForPlugin", Releases: of1_33,
		Old: `MigrationAsksNode, until: "1.31.0"`, New: `MigrationAsksNode, until: "1.34.0"`},
	{Name: "portworx-since-1.30", Branch: "1.31: CSIMigrationPortworx", Releases: of1_30,
		Old: `PortworxMigrates, since: "1.31.0"`, New: `PortworxMigrates, since: "1.30.0"`},
	{Name: "portworx-since-1.34", Branch: "1.31: CSIMigrationPortworx", Releases: of1_33,
		Old: `PortworxMigrates, since: "1.31.0"`, New: `PortworxMigrates, since: "1.34.0"`},
	{Name: "portworx-asks-until-1.35", Branch: "1.36: InTreePluginPortworxUnregister", Releases: of1_35,
		Old: `PortworxAsksNode, since: "1.31.0", until: "1.36.0"`, New: `PortworxAsksNode, since: "1.31.0", until: "1.35.0"`},
	{Name: "portworx-asks-until-1.37", Branch: "1.36: InTreePluginPortworxUnregister", Releases: of1_36,
		Old: `PortworxAsksNode, since: "1.31.0", until: "1.36.0"`, New: `PortworxAsksNode, since: "1.31.0", until: "1.37.0"`},
	{Name: "portworx-asks-since-1.34", Branch: "1.31: CSIMigrationPortworx", Releases: of1_33,
		Old: `PortworxAsksNode, since: "1.31.0", until: "1.36.0"`, New: `PortworxAsksNode, since: "1.34.0", until: "1.36.0"`},
	{Name: "portworx-asks-since-1.26", Branch: "1.31: CSIMigrationPortworx", Releases: conformance.Releases,
		Old: `PortworxAsksNode, since: "1.31.0", until: "1.36.0"`, New: `PortworxAsksNode, since: "", until: "1.36.0"`,
		Unseen: "The node is asked about a plugin that migrates only, and Portworx does from 1.31 on: the lower bound of this row is never the one that decides."},
	{Name: "aws-until-1.26", Branch: "1.27: pkg/volume/awsebs went", Releases: of1_26,
		Old: `InTreeAWSEBS, until: "1.27.0"`, New: `InTreeAWSEBS, until: "1.26.0"`},
	{Name: "aws-until-1.29", Branch: "1.27: pkg/volume/awsebs went", Releases: of1_28,
		Old: `InTreeAWSEBS, until: "1.27.0"`, New: `InTreeAWSEBS, until: "1.29.0"`},
	{Name: "azure-until-1.26", Branch: "1.27: pkg/volume/azuredd went", Releases: of1_26,
		Old: `InTreeAzureDisk, until: "1.27.0"`, New: `InTreeAzureDisk, until: "1.26.0"`},
	{Name: "azure-until-1.29", Branch: "1.27: pkg/volume/azuredd went", Releases: of1_28,
		Old: `InTreeAzureDisk, until: "1.27.0"`, New: `InTreeAzureDisk, until: "1.29.0"`},
	{Name: "gce-until-1.26", Branch: "1.28: pkg/volume/gcepd went", Releases: of1_26,
		Old: `InTreeGCEPD, until: "1.28.0"`, New: `InTreeGCEPD, until: "1.26.0"`},
	{Name: "gce-until-1.29", Branch: "1.28: pkg/volume/gcepd went", Releases: of1_28,
		Old: `InTreeGCEPD, until: "1.28.0"`, New: `InTreeGCEPD, until: "1.29.0"`},
	{Name: "gce-until-1.27", Branch: "1.28: pkg/volume/gcepd went", Releases: conformance.Releases,
		Old: `InTreeGCEPD, until: "1.28.0"`, New: `InTreeGCEPD, until: "1.27.0"`, Unseen: between},
	{Name: "vsphere-until-1.28", Branch: "1.30: pkg/volume/vsphere_volume went", Releases: of1_28,
		Old: `InTreeVSphere, until: "1.30.0"`, New: `InTreeVSphere, until: "1.28.0"`},
	{Name: "vsphere-until-1.31", Branch: "1.30: pkg/volume/vsphere_volume went", Releases: of1_30,
		Old: `InTreeVSphere, until: "1.30.0"`, New: `InTreeVSphere, until: "1.31.0"`},
	{Name: "rbd-until-1.30", Branch: "1.31: pkg/volume/rbd went", Releases: of1_30,
		Old: `InTreeRBD, until: "1.31.0"`, New: `InTreeRBD, until: "1.30.0"`},
	{Name: "rbd-until-1.34", Branch: "1.31: pkg/volume/rbd went", Releases: of1_33,
		Old: `InTreeRBD, until: "1.31.0"`, New: `InTreeRBD, until: "1.34.0"`},
	{Name: "vsphere-until-1.29", Branch: "1.30: pkg/volume/vsphere_volume went", Releases: of1_29,
		Old: `InTreeVSphere, until: "1.30.0"`, New: `InTreeVSphere, until: "1.29.0"`},
	{Name: "failed-detach-since-1.30", Branch: "1.29: a failed detach is uncertain", Releases: of1_29,
		Old: `FailedDetachIsUncertain, since: "1.29.0"`, New: `FailedDetachIsUncertain, since: "1.30.0"`},
	{Name: "failed-detach-since-1.26.9", Branch: "1.26.10: a failed detach is uncertain", Releases: of1_26_9,
		Old: `"1.27.7", "1.26.10"}`, New: `"1.27.7", "1.26.9"}`},
	{Name: "failed-detach-never-in-1.26", Branch: "1.26.10: a failed detach is uncertain", Releases: of1_26,
		Old: `"1.27.7", "1.26.10"}`, New: `"1.27.7"}`},
	{Name: "failed-detach-never-in-1.28", Branch: "1.28.3: a failed detach is uncertain", Releases: of1_28,
		Old: `"1.28.3", "1.27.7"`, New: `"1.27.7"`},
	{Name: "waiting-words-since-1.36", Branch: "1.37: the multi-attach event", Releases: of1_36,
		Old: `WaitingForDetach, since: "1.37.0"`, New: `WaitingForDetach, since: "1.36.0"`},
	{Name: "waiting-words-never", Branch: "1.37: the multi-attach event",
		Old: `return "Waiting for detach"`, New: `return "Multi-Attach error"`},
	{Name: "portworx-always", Branch: "1.31: CSIMigrationPortworx", Releases: of1_30,
		Old: `return b.Has(PortworxMigrates)`, New: `return true`},
	{Name: "asks-node-for-all", Branch: "1.31 to 1.35: Portworx alone asks the node", Releases: of1_33,
		Old: `plugin == PortworxPlugin && b.Has(PortworxAsksNode)`, New: `b.Has(PortworxAsksNode)`},
	{Name: "annotation-separator", Branch: "isCSIMigrationSupportedOnNode: separated by commas", Releases: of1_30,
		Old: `strings.Split(annotation, ",")`, New: `strings.Split(annotation, ";")`},
}
