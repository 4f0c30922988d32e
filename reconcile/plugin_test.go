package reconcile

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/volume-doctor/kubectl-volume-doctor/snapshot"
)

// TestVolumeAttachmentName compares computed names with those of real clusters.
func TestVolumeAttachmentName(t *testing.T) {
	tests := []struct {
		handle, driver string
		node           types.NodeName
		want           string
	}{
		{"vol-0123456789abcdef0", "ebs.csi.aws.com", "ip-10-0-0-1.ec2.internal",
			"csi-fe06e9b7f0788d36d037dc072e698d0df29ffac77397761bb77014101d61709d"},
		{"pvc-ae7895a2-b778-4e13-8eb9-9e34f800a746", "driver.longhorn.io", "server0",
			"csi-646eb02c5afaa9f652864e56da200daaa2c9acacc7f0599c3776fb96040c920a"},
	}
	for _, test := range tests {
		if got := VolumeAttachmentName(test.handle, test.driver, test.node); got != test.want {
			t.Errorf("VolumeAttachmentName(%q, %q, %q) = %s, want %s", test.handle, test.driver, test.node, got, test.want)
		}
	}
}

func TestParseCSI(t *testing.T) {
	tests := []struct {
		name           corev1.UniqueVolumeName
		driver, handle string
		ok             bool
	}{
		{"kubernetes.io/csi/d^h", "d", "h", true},
		{"kubernetes.io/csi/d^path/to/h", "d", "path/to/h", true},
		{"kubernetes.io/csi/d^", "d", "", true},
		{"kubernetes.io/csi/d^h^x", "", "", false},
		{"kubernetes.io/csi/d", "", "", false},
		{"kubernetes.io/csi/", "", "", false},
		{"kubernetes.io/csi", "", "", false},
		{"kubernetes.io/fc/d^h", "", "", false},
		{"", "", "", false},
	}
	for _, test := range tests {
		driver, handle, ok := ParseCSI(test.name)
		if driver != test.driver || handle != test.handle || ok != test.ok {
			t.Errorf("ParseCSI(%q) = %q, %q, %v", test.name, driver, handle, ok)
		}
	}
}

// TestVolumeName gives each kind of PV its unique name, or the reason why it
// has none.
func TestVolumeName(t *testing.T) {
	lun := int32(2)
	tests := []struct {
		name   string
		source corev1.PersistentVolumeSource
		edit   func(*corev1.PersistentVolume)
		want   corev1.UniqueVolumeName
		reason SkipReason
	}{
		{name: "CSI", source: csiSource("d", "h"), want: "kubernetes.io/csi/d^h"},
		{name: "CSI without CSIDriver", source: csiSource("unheard-of", "h"), want: "kubernetes.io/csi/unheard-of^h"},
		{name: "CSI, attachRequired unset", source: csiSource("unset", "h"), want: "kubernetes.io/csi/unset^h"},
		{name: "CSI, attachRequired true", source: csiSource("required", "h"), want: "kubernetes.io/csi/required^h"},
		{name: "CSI, attachRequired false", source: csiSource("optional", "h"), reason: NotAttachable},
		{name: "FC by WWN", source: corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{TargetWWNs: []string{"a", "b"}, Lun: &lun}},
			want: "kubernetes.io/fc/[a b]:2"},
		{name: "FC by WWN before WWID", source: corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{TargetWWNs: []string{"a"}, Lun: &lun, WWIDs: []string{"w"}}},
			want: "kubernetes.io/fc/[a]:2"},
		{name: "FC by WWID", source: corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{WWIDs: []string{"w", "x"}}},
			want: "kubernetes.io/fc/[w x]"},
		{name: "FC without lun", source: corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{TargetWWNs: []string{"a"}}}, reason: NoVolumeName},
		{name: "iSCSI", source: corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{TargetPortal: "10.0.0.1", IQN: "iqn.x:y", Lun: 3}},
			want: "kubernetes.io/iscsi/10.0.0.1:iqn.x:y:3"},
		{name: "flexvolume", source: corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Driver: "vendor/driver"}},
			want: "vendor/driver/pv"},
		{name: "flexvolume, driver unknown", source: corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{Driver: "vendor/other"}},
			reason: NotAttachable},
		{name: "FC and iSCSI", source: corev1.PersistentVolumeSource{FC: &corev1.FCVolumeSource{}, ISCSI: &corev1.ISCSIPersistentVolumeSource{}},
			reason: AmbiguousPlugin},
		{name: "NFS", source: corev1.PersistentVolumeSource{NFS: &corev1.NFSVolumeSource{}}, reason: NotAttachable},

		{name: "EBS", source: corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://us-east-1a/vol-1"}},
			want: "kubernetes.io/csi/ebs.csi.aws.com^vol-1"},
		{name: "EBS, no such volume", source: corev1.PersistentVolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "aws://us-east-1a/x"}},
			reason: TranslationFailed},
		{name: "GCE", source: corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "pd"}},
			want: "kubernetes.io/csi/pd.csi.storage.gke.io^projects/UNSPECIFIED/zones/UNSPECIFIED/disks/pd"},
		{name: "GCE, regional", source: corev1.PersistentVolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "pd"}},
			edit: func(pv *corev1.PersistentVolume) {
				pv.Labels = map[string]string{corev1.LabelTopologyZone: "us-central1-a__us-central1-b"}
			},
			want: "kubernetes.io/csi/pd.csi.storage.gke.io^projects/UNSPECIFIED/regions/us-central1/disks/pd"},
		{name: "Azure disk", source: corev1.PersistentVolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DataDiskURI: "/subscriptions/s/disks/d"}},
			want: "kubernetes.io/csi/disk.csi.azure.com^/subscriptions/s/disks/d"},
		{name: "Azure file", source: corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "azure-storage-account-acc-secret", ShareName: "s"}},
			want: "kubernetes.io/csi/file.csi.azure.com^#acc#s#pv#default"},
		{name: "Cinder", source: corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{VolumeID: "c"}},
			want: "kubernetes.io/csi/cinder.csi.openstack.org^c"},
		{name: "vSphere", source: corev1.PersistentVolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "[ds] d.vmdk"}},
			want: "kubernetes.io/csi/csi.vsphere.vmware.com^[ds] d.vmdk"},
		{name: "Portworx", source: corev1.PersistentVolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{VolumeID: "p"}},
			want: "kubernetes.io/csi/pxd.portworx.com^p"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			pv := newPV("pv", source(test.source))
			if test.edit != nil {
				test.edit(pv)
			}
			w := NewWorld(snapshotOf(snapshot.Objects{CSIDrivers: drivers()}), Options{FlexAttachable: []string{"vendor/driver"}})
			got, err := w.VolumeName(pv)
			if got != test.want || reasonOf(err) != test.reason {
				t.Errorf("got %q and %q (%v), want %q and %q", got, reasonOf(err), err, test.want, test.reason)
			}
		})
	}
}

// TestInlineVolumeName has the sources that stand in a pod.
func TestInlineVolumeName(t *testing.T) {
	managed, blob := corev1.AzureManagedDisk, corev1.AzureDedicatedBlobDisk
	tests := []struct {
		name   string
		source corev1.VolumeSource
		want   corev1.UniqueVolumeName
		multi  bool
		reason SkipReason
	}{
		{name: "CSI", source: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{Driver: "d"}}, reason: NotAttachable},
		{name: "FC", source: corev1.VolumeSource{FC: &corev1.FCVolumeSource{WWIDs: []string{"w"}}}, want: "kubernetes.io/fc/[w]", multi: true},
		{name: "iSCSI", source: corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "p", IQN: "i", Lun: 1}}, want: "kubernetes.io/iscsi/p:i:1", multi: true},
		{name: "flexvolume", source: corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{Driver: "vendor/driver"}}, want: "vendor/driver/inline", multi: true},
		{name: "EBS", source: corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: "vol-1"}},
			want: "kubernetes.io/csi/ebs.csi.aws.com^vol-1"},
		{name: "GCE, read-only", source: corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{PDName: "pd", ReadOnly: true}},
			want: "kubernetes.io/csi/pd.csi.storage.gke.io^projects/UNSPECIFIED/zones/UNSPECIFIED/disks/pd", multi: true},
		{name: "Azure disk", source: corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DataDiskURI: "/d", Kind: &managed}},
			want: "kubernetes.io/csi/disk.csi.azure.com^/d"},
		{name: "Azure blob disk", source: corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{DataDiskURI: "/d", Kind: &blob}}, reason: TranslationFailed},
		{name: "Azure file", source: corev1.VolumeSource{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "s", ShareName: "f"}},
			want: "kubernetes.io/csi/file.csi.azure.com^#s#f#inline#default", multi: true},
		{name: "vSphere with a policy", source: corev1.VolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "p", StoragePolicyName: "gold"}},
			reason: TranslationFailed},
		{name: "claim without a name", source: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}, reason: NotAttachable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := NewWorld(snapshotOf(snapshot.Objects{}), Options{FlexAttachable: []string{"vendor/driver"}})
			pod := newPod("p", "n1", nil, inline(test.source))
			got, spec, err := w.PodVolume(pod, &pod.Spec.Volumes[0])
			if got != test.want || reasonOf(err) != test.reason {
				t.Errorf("got %q and %q (%v), want %q and %q", got, reasonOf(err), err, test.want, test.reason)
			}
			if err == nil && spec.MultiAttach() != test.multi {
				t.Errorf("MultiAttach is %v", spec.MultiAttach())
			}
		})
	}
}

// TestVSpherePolicyCrashesUpstream tells when translateInline's detour has
// become unnecessary.
func TestVSpherePolicyCrashesUpstream(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("the translation no longer panics: drop the detour")
		}
	}()
	w := NewWorld(snapshotOf(snapshot.Objects{}), Options{})
	volume := &corev1.Volume{VolumeSource: corev1.VolumeSource{
		VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{VolumePath: "p", StoragePolicyName: "gold"},
	}}
	_, _ = w.resolver.translator.TranslateInTreeInlineVolumeToCSI(logr.Discard(), volume, "default")
}

func TestMultiAttach(t *testing.T) {
	const rwo, rwx, rox, rwop = corev1.ReadWriteOnce, corev1.ReadWriteMany, corev1.ReadOnlyMany, corev1.ReadWriteOncePod
	tests := []struct {
		name string
		spec *VolumeSpec
		want bool
	}{
		{"unknown", nil, true},
		{"no mode", &VolumeSpec{PV: newPV("v", modes())}, true},
		{"RWO", &VolumeSpec{PV: newPV("v", modes(rwo))}, false},
		{"RWOP", &VolumeSpec{PV: newPV("v", modes(rwop))}, false},
		{"RWX", &VolumeSpec{PV: newPV("v", modes(rwx))}, true},
		{"ROX", &VolumeSpec{PV: newPV("v", modes(rox))}, true},
		{"RWO and ROX", &VolumeSpec{PV: newPV("v", modes(rwo, rox))}, true},
		{"RWO and RWOP", &VolumeSpec{PV: newPV("v", modes(rwo, rwop))}, false},
		{"inline FC", &VolumeSpec{Inline: &corev1.Volume{VolumeSource: corev1.VolumeSource{FC: &corev1.FCVolumeSource{}}}}, true},
		{"inline Cinder", &VolumeSpec{Inline: &corev1.Volume{VolumeSource: corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{}}}}, false},
	}
	for _, test := range tests {
		if got := test.spec.MultiAttach(); got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func csiSource(driver, handle string) corev1.PersistentVolumeSource {
	return corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle}}
}

func drivers() []*storagev1.CSIDriver {
	var list []*storagev1.CSIDriver
	for name, required := range map[string]*bool{"unset": nil, "required": new(true), "optional": new(false)} {
		list = append(list, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{AttachRequired: required}})
	}
	return list
}

// reasonOf is the reason in the error; it fails where the reason comes without a sentence.
func reasonOf(err error) SkipReason {
	var why *skip
	if !errors.As(err, &why) {
		return ""
	}
	if strings.TrimSpace(err.Error()) == "" {
		return "a reason without a message"
	}
	return why.reason
}
