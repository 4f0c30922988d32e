package conformance

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (g *generator) volumes() {
	for i := range g.between(1, 7) {
		g.volume(fmt.Sprintf("pv%d", i+1))
	}
}

func (g *generator) volume(name string) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name, UID: g.uid()}}
	pv.Spec.AccessModes = g.accessModes()
	pv.Spec.PersistentVolumeSource = g.pvSource(pv)
	if g.chance(0.1) {
		pv.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	}
	if g.chance(0.05) {
		pv.DeletionTimestamp, pv.Finalizers = &metav1.Time{Time: now}, []string{"x/y"}
	}
	g.c.Volumes = append(g.c.Volumes, pv)
	return pv
}

func (g *generator) accessModes() []corev1.PersistentVolumeAccessMode {
	if g.chance(0.55) {
		return []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	}
	all := []corev1.PersistentVolumeAccessMode{
		corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadOnlyMany, corev1.ReadWriteOncePod,
	}
	g.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	// An empty list becomes nil, as it does when it is sent.
	return append([]corev1.PersistentVolumeAccessMode(nil), all[:g.between(0, 4)]...)
}

// handle is a handle from a pool so small that PVs sometimes share one.
func (g *generator) handle() string {
	return pick(g, "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "path/to/h", "odd^handle", "a b", "")
}

// pvSource is a CSI source half of the time.
func (g *generator) pvSource(pv *corev1.PersistentVolume) corev1.PersistentVolumeSource {
	if g.chance(0.5) {
		return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: pick(g, csiDrivers...), VolumeHandle: g.handle()}}
	}
	return pick(g,
		g.fcPV, g.iscsiPV, g.flexPV, g.awsPV, g.gcePV, g.azureDiskPV, g.azureFilePV, g.otherMigratedPV, g.unattachablePV,
	)(pv)
}

func (g *generator) fc() *corev1.FCVolumeSource {
	lun := int32(g.between(0, 1))
	return pick(g,
		&corev1.FCVolumeSource{TargetWWNs: []string{"50060e801049cfd1"}, Lun: &lun},
		&corev1.FCVolumeSource{TargetWWNs: []string{"50060e801049cfd1", "50060e801049cfd2"}, Lun: &lun},
		&corev1.FCVolumeSource{WWIDs: []string{"3600508b400105e210000900000490000"}},
		&corev1.FCVolumeSource{WWIDs: []string{"w1", "w2"}},
		&corev1.FCVolumeSource{TargetWWNs: []string{"50060e801049cfd1"}, Lun: &lun, WWIDs: []string{"w1"}},
		&corev1.FCVolumeSource{TargetWWNs: []string{"no-lun"}},
		&corev1.FCVolumeSource{},
	)
}

func (g *generator) fcPV(*corev1.PersistentVolume) corev1.PersistentVolumeSource {
	source := corev1.PersistentVolumeSource{FC: g.fc()}
	if g.chance(0.1) {
		// The API server allows only one source; the plugins would conflict.
		source.ISCSI = &corev1.ISCSIPersistentVolumeSource{TargetPortal: "10.0.0.1", IQN: "iqn.x"}
	}
	return source
}

func (g *generator) iscsiPV(*corev1.PersistentVolume) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{
		TargetPortal: pick(g, "10.0.0.1:3260", "10.0.0.1", "[::1]:3260"), IQN: "iqn.2001-04.com.example:storage", Lun: int32(g.between(0, 1)),
	}}
}

// flexDriver is a driver that may be unknown to the controller, or may not attach.
func (g *generator) flexDriver() string {
	return pick(g, "acme/disk", "acme/share", "acme/unknown", "plain")
}

func (g *generator) flexPV(*corev1.PersistentVolume) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Driver: g.flexDriver()}}
}

// awsID is a volume's id; the last one cannot be translated.
func (g *generator) awsID() string {
	return pick(g, "vol-1", "aws://us-east-1a/vol-1", "aws:///vol-2", "aws://us-east-1a/not-a-volume")
}

// zone labels the volume in the new way, in the old one, in both or not at all. A volume that
// was made for CSI also has a node affinity.
func (g *generator) zone(pv *corev1.PersistentVolume, zones ...string) {
	pv.Labels = map[string]string{}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone} {
		if g.chance(0.5) {
			pv.Labels[key] = pick(g, zones...)
		}
	}
	if g.chance(0.2) {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: pick(g, corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone), Operator: corev1.NodeSelectorOpIn, Values: []string{pick(g, zones...)},
			}},
		}}}}
	}
}

func (g *generator) awsPV(pv *corev1.PersistentVolume) corev1.PersistentVolumeSource {
	g.zone(pv, "us-east-1a", "us-east-1a__us-east-1b")
	return corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: g.awsID()}}
}

func (g *generator) gcePV(pv *corev1.PersistentVolume) corev1.PersistentVolumeSource {
	g.zone(pv, "us-central1-a", "us-central1-a__us-central1-b", "us-central1-a__europe-west1-b", "nozone__other", "")
	return corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: pick(g, "pd1", "pd2")}}
}

func (g *generator) azureKind() *corev1.AzureDataDiskKind {
	return pick(g, nil, new(corev1.AzureManagedDisk), new(corev1.AzureDedicatedBlobDisk))
}

const azureDiskURI = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/disks/d"

func (g *generator) azureDiskPV(pv *corev1.PersistentVolume) corev1.PersistentVolumeSource {
	g.zone(pv, "westeurope-1", "0")
	return corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{
		DiskName: "d", DataDiskURI: pick(g, azureDiskURI+"1", azureDiskURI+"2"), Kind: g.azureKind(),
	}}
}

func (g *generator) azureFilePV(pv *corev1.PersistentVolume) corev1.PersistentVolumeSource {
	if g.chance(0.3) {
		pv.Annotations = map[string]string{"kubernetes.io/azure-file-resource-group": "rg"}
	}
	return corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{
		SecretName: pick(g, "azure-storage-account-acc-secret", "plain", ""), ShareName: pick(g, "share", "share", "share", ""), SecretNamespace: maybe(g, 0.4, "a"),
	}}
}

func (g *generator) otherMigratedPV(pv *corev1.PersistentVolume) corev1.PersistentVolumeSource {
	g.zone(pv, "nova", "zone-1")
	return pick(g,
		corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "cinder-1"}},
		corev1.PersistentVolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "[ds] d.vmdk", StoragePolicyName: pick(g, "", "gold")}},
		corev1.PersistentVolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{VolumeID: "px-1"}},
	)
}

func (g *generator) unattachablePV(*corev1.PersistentVolume) corev1.PersistentVolumeSource {
	return pick(g,
		corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nfs", Path: "/"}},
		corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
		corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/x"}},
		corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{RBDPool: "pool", RBDImage: "image"}},
		corev1.PersistentVolumeSource{CephFS: &corev1.CephFSPersistentVolumeSource{Monitors: []string{"10.0.0.2"}}},
		corev1.PersistentVolumeSource{Glusterfs: &corev1.GlusterfsPersistentVolumeSource{EndpointsName: "gluster", Path: "x"}},
		corev1.PersistentVolumeSource{Quobyte: &corev1.QuobyteVolumeSource{Registry: "r", Volume: "x"}},
		corev1.PersistentVolumeSource{Flocker: &corev1.FlockerVolumeSource{DatasetName: "x"}},
		corev1.PersistentVolumeSource{ScaleIO: &corev1.ScaleIOPersistentVolumeSource{System: "s", VolumeName: "x"}},
		corev1.PersistentVolumeSource{StorageOS: &corev1.StorageOSPersistentVolumeSource{VolumeName: "x"}},
		corev1.PersistentVolumeSource{PhotonPersistentDisk: &corev1.PhotonPersistentDiskVolumeSource{PdID: "x"}},
		corev1.PersistentVolumeSource{},
	)
}

// inline is a volume source in the pod itself.
func (g *generator) inline() corev1.VolumeSource {
	return pick(g,
		corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: pick(g, csiDrivers...)}},
		corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{Server: "nfs", Path: "/"}},
		corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/x"}},
		corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}},
		corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}},
		corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}},
		corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{}},
		corev1.VolumeSource{GitRepo: &corev1.GitRepoVolumeSource{Repository: "https://example.com/x.git"}},
		corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: "example.com/data:1"}},
		corev1.VolumeSource{CephFS: &corev1.CephFSVolumeSource{Monitors: []string{"10.0.0.2"}}},
		corev1.VolumeSource{Glusterfs: &corev1.GlusterfsVolumeSource{EndpointsName: "gluster", Path: "x"}},
		corev1.VolumeSource{Quobyte: &corev1.QuobyteVolumeSource{Registry: "r", Volume: "x"}},
		corev1.VolumeSource{Flocker: &corev1.FlockerVolumeSource{DatasetName: "x"}},
		corev1.VolumeSource{ScaleIO: &corev1.ScaleIOVolumeSource{System: "s", VolumeName: "x"}},
		corev1.VolumeSource{StorageOS: &corev1.StorageOSVolumeSource{VolumeName: "x"}},
		corev1.VolumeSource{PhotonPersistentDisk: &corev1.PhotonPersistentDiskVolumeSource{PdID: "x"}},
		corev1.VolumeSource{FC: g.fc()},
		corev1.VolumeSource{FC: g.fc()},
		corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "10.0.0.1:3260", IQN: "iqn.2001-04.com.example:storage", Lun: int32(g.between(0, 1))}},
		corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: g.flexDriver()}},
		corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: g.awsID()}},
		corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "pd1", ReadOnly: g.chance(0.5)}},
		corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: azureDiskURI + "1", Kind: g.azureKind()}},
		corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: pick(g, "azure-storage-account-acc-secret", "plain"), ShareName: "share"}},
		corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{VolumeID: "cinder-1"}},
		corev1.VolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "[ds] d.vmdk"}},
		corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{RBDPool: "pool", RBDImage: "image"}},
		corev1.VolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{VolumeID: "px-1", ReadOnly: g.chance(0.5)}},
	)
}
