package facts

import (
	"maps"
	"slices"
	"strings"
)

// Serving is whether a process in the pod of a driver's node plugin serves the driver's mounts,
// so that they end with the pod.
type Serving string

// The answers, and what decides them in the table servings.
const (
	Serves       Serving = "yes"
	ServesNone   Serving = "no"
	MayServe     Serving = "unknown"
	byPlugin             = Serves
	byKernel             = ServesNone  // the kernel mounts, and needs nobody
	byEither             = MayServe    // depends on the driver's release or settings, which no object shows
	byOthers     Serving = "by others" // other pods or services of the machine serve the mounts
	overNetwork  Serving = "over the network"
	byAttributes Serving = "by the volume's attributes"
)

// servings are the drivers with a known architecture. A key also matches names that end in it
// after a dot, as Rook uses them; a key that ends in "*" is a prefix. A driver outside the table
// may serve.
var servings = map[string]Serving{
	// block devices that the machine or its kernel has
	"ebs.csi.aws.com": byKernel, "pd.csi.storage.gke.io": byKernel, "disk.csi.azure.com": byKernel, "csi.vsphere.vmware.com": byKernel,
	"cinder.csi.openstack.org": byKernel, "diskplugin.csi.alibabacloud.com": byKernel, "csi.hetzner.cloud": byKernel,
	"dobs.csi.digitalocean.com": byKernel, "linodebs.csi.linode.com": byKernel, "block.csi.vultr.com": byKernel, "csi.scaleway.com": byKernel,
	"storage.csi.upcloud.com": byKernel, "vpc.block.csi.ibm.io": byKernel, "csi.ovirt.org": byKernel, "csi.proxmox.sinextra.dev": byKernel,
	"csi.kubevirt.io": byKernel, "com.tencent.cloud.csi.cbs": byKernel, "blockvolume.csi.oraclecloud.com": byKernel,
	"csi-vxflexos.dellemc.com": byKernel, "spectrumscale.csi.ibm.com": byKernel, "linstor.csi.linbit.com": byKernel,
	// disks of the machine itself
	"topolvm.io": byKernel, "topolvm.cybozu.com": byKernel, "local.csi.openebs.io": byKernel, "zfs.csi.openebs.io": byKernel,
	"directpv-min-io": byKernel, "hostpath.csi.k8s.io": byKernel, "secrets-store.csi.k8s.io": byKernel,
	// the kernel mounts, over connections that it makes where the mount was made
	"nfs.csi.k8s.io": overNetwork, "smb.csi.k8s.io": overNetwork, "file.csi.azure.com": overNetwork, "filestore.csi.storage.gke.io": overNetwork,
	"fsx.csi.aws.com": overNetwork, "fsx.openzfs.csi.aws.com": overNetwork, "lustre.csi.storage.gke.io": overNetwork,
	"csi-isilon.dellemc.com": overNetwork, "csi-powerstore.dellemc.com": overNetwork, "csi-unity.dellemc.com": overNetwork,
	"csi-powermax.dellemc.com": overNetwork, "csi.trident.netapp.io": overNetwork, "csi.hpe.com": overNetwork, "csi.huawei.com": overNetwork,
	"block.csi.ibm.com": overNetwork, "csi.san.synology.com": overNetwork, "org.democratic-csi.*": overNetwork, "csi.nutanix.com": overNetwork,
	"io.openebs.csi-mayastor": overNetwork, "cstor.csi.openebs.io": overNetwork, "jiva.csi.openebs.io": overNetwork,
	"beegfs.csi.netapp.com": overNetwork, "pure-csi": overNetwork, "infinibox-csi-driver": overNetwork,
	// one of several ways, by the volume's attributes
	"rbd.csi.ceph.com": byAttributes, "cephfs.csi.ceph.com": byAttributes, "blob.csi.azure.com": byAttributes, "driver.longhorn.io": byAttributes,
	// pods or services of their own
	"s3.csi.aws.com":                 byOthers, // services of the machine; from version 2 on pods in namespace mount-s3
	"gcsfuse.csi.storage.gke.io":     byOthers, // a sidecar in each pod that mounts
	"fuse.csi.fluid.io":              byOthers,
	"csi.quobyte.com":                byOthers,
	"csi.juicefs.com":                byEither, // pods of their own, but for --by-process
	"seaweedfs-csi-driver":           byEither, // a DaemonSet of its own in later releases
	"ru.yandex.s3.csi":               byEither, // services of the machine, where it has systemd
	"ossplugin.csi.alibabacloud.com": byEither,
	"nasplugin.csi.alibabacloud.com": byEither,
	"cos.s3.csi.ibm.io":              byEither,
	"csi.curvefs.com":                byEither,
	"alluxio":                        byEither,
	"pxd.portworx.com":               byEither,
	"manila.csi.openstack.org":       byEither,
	// FUSE or a proxy of the network in the plugin's pod
	"efs.csi.aws.com": byPlugin, "ch.ctrox.csi.s3-driver": byPlugin, "csi-s3": byPlugin, "gcs.csi.ofek.dev": byPlugin, "kadalu": byPlugin,
	"org.gluster.glusterfs": byPlugin, "csi-rclone": byPlugin, "co.p4t.csi.sshfs": byPlugin, "cvmfs.csi.cern.ch": byPlugin,
	"eosxd.csi.cern.ch": byPlugin, "com.mapr.csi-kdf": byPlugin, "com.mapr.csi-nfskdf": byPlugin,
}

// Mount describes a mount, as far as it decides who serves it.
type Mount struct {
	// Attributes are the volume's, as far as trim.Object keeps them.
	Attributes map[string]string
	// Shared reports whether several nodes may write to the volume.
	Shared bool
	// HostNetwork reports whether the node plugin's pod is known to use the machine's network.
	// A connection that the kernel made in another network hangs once the pod is gone.
	HostNetwork bool
	// Unknown reports that the volume's objects are gone: it may have had any attributes.
	Unknown bool
}

// NodePluginServesMounts reports whether the driver's mount of the volume ends, or
// hangs, with the pod of the driver's node plugin.
func NodePluginServesMounts(driver string, m Mount) Serving {
	name, serving := servingOf(driver)
	switch {
	case serving == byAttributes && m.Unknown:
		serving = byEither
	case serving == byAttributes:
		serving = m.serving(name)
	}
	switch {
	case serving == overNetwork && m.HostNetwork || serving == byOthers:
		return ServesNone
	case serving == overNetwork || serving == "":
		return MayServe
	default:
		return serving
	}
}

// whyNone is why no mount of the drivers ends with the node plugin's pod.
func whyNone(drivers []string) string {
	var kernel, others []string
	for _, driver := range drivers {
		if name, serving := servingOf(driver); serving == byOthers || name == "driver.longhorn.io" {
			others = append(others, driver)
		} else {
			kernel = append(kernel, driver)
		}
	}
	var why []string
	if len(kernel) > 0 {
		why = append(why, strings.Join(kernel, " and ")+" mounts by the kernel")
	}
	if len(others) > 0 {
		why = append(why, "other pods or services serve the mounts of "+strings.Join(others, " and "))
	}
	return strings.Join(why, ", and ")
}

// servingOf is the driver's entry in servings, and its key; "" where the driver has none.
func servingOf(driver string) (name string, serving Serving) {
	for name := driver; ; {
		if s, known := servings[name]; known {
			return name, s
		}
		_, rest, more := strings.Cut(name, ".")
		if !more {
			break
		}
		name = rest
	}
	for _, name := range slices.Sorted(maps.Keys(servings)) {
		if prefix, ok := strings.CutSuffix(name, "*"); ok && strings.HasPrefix(driver, prefix) {
			return name, servings[name]
		}
	}
	return driver, ""
}

// serving is how the driver mounts where the volume's attributes decide.
func (m Mount) serving(name string) Serving {
	mounter := m.Attributes["mounter"]
	switch name {
	case "rbd.csi.ceph.com":
		switch {
		case mounter == "rbd-nbd":
			return byPlugin
		case m.Attributes["tryOtherMounters"] == "true" || !slices.Contains([]string{"", "rbd"}, mounter):
			return byEither
		}
		return overNetwork
	case "cephfs.csi.ceph.com":
		switch mounter {
		case "fuse":
			return byPlugin
		case "kernel":
			return overNetwork
		}
		return byEither // the driver uses the mounter that the node has
	case "blob.csi.azure.com":
		if strings.HasPrefix(strings.ToLower(m.Attributes["protocol"]), "nfs") {
			return overNetwork
		}
		return byEither // blobfuse, in the pod or in a proxy on the machine
	case "driver.longhorn.io":
		if m.Shared {
			return byEither // NFS, in whatever network
		}
		return byOthers // pods of their own make the device
	}
	return byEither
}
