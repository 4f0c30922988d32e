package driverwords

// scaleway holds the words of the Scaleway driver.
var scaleway = family{
	drivers: []string{"csi.scaleway.com"},
	source:  "scaleway/scaleway-csi pkg/driver/controller.go@v0.3.6",
	entries: []Entry{
		{Words: "already attached to another node", Meaning: AttachedElsewhere},
		{Words: "max number of volumes reached for instance", Meaning: AttachLimit},
		{Words: "unable to get server where to publish the volume", Meaning: MachineGone},
		{Words: "unable to get volume to publish", Meaning: VolumeNotFound},
		{Words: "is not mounted on node yet", Meaning: DeviceMissing,
			Source: "scaleway/scaleway-csi pkg/driver/node.go@v0.3.6"},
	},
}

// vultr holds the words of the Vultr driver.
var vultr = family{
	drivers: []string{"block.csi.vultr.com"},
	source:  "vultr/vultr-csi driver/controller.go@v0.18.0",
	entries: []Entry{
		{Words: "Server is currently locked", Meaning: MachineBusy},
		{Words: "ControllerPublishVolume: could not retrieve node", Meaning: MachineGone},
		{Words: "ControllerPublishVolume: could not retrieve existing storage volume", Meaning: VolumeNotFound},
		{Words: "block storage is not supported on bm servers", Meaning: NodeIncompatible},
		{Words: "Invalid block storage ID", Meaning: VolumeNotFound,
			Source: "vultr/vultr-csi internal/vultrstorage/vultrstorage.go@v0.18.0"},
		{Words: "unable to list and verify sys device info", Meaning: DeviceMissing,
			Source: "vultr/vultr-csi internal/vultrdevice/vultrdevice.go@v0.18.0"},
	},
}

// kubevirt holds the words of the KubeVirt driver.
var kubevirt = family{
	drivers: []string{"csi.kubevirt.io"},
	source:  "kubevirt/csi-driver pkg/service/controller.go@27b52aa22da7",
	entries: []Entry{
		{Words: "volume is attached to another VM", Meaning: AttachedElsewhere,
			Helps: "{wait} until the volume is unplugged from the other VM; look at that VM's volumes in the infrastructure cluster."},
		{Words: "vm {} not found", Meaning: MachineGone},
		{Words: "infraStorageclass is not in the allowed list", Meaning: DriverConfig},
		{Words: "non-block volume with RWX access mode is not supported", Meaning: AccessType},
		{Words: "already mounted or mount point busy", Meaning: DeviceBusy,
			Helps:  "Keep multipathd in the VM away from hot-plugged disks: blacklist them in /etc/multipath.conf.",
			Source: "https://github.com/kubevirt/csi-driver/issues/146"},
	},
}

// synology holds the words of the Synology driver.
var synology = family{
	drivers: []string{"csi.san.synology.com"},
	source:  "SynologyOpenSource/synology-csi pkg/driver/nodeserver.go@v1.2.1",
	entries: []Entry{
		{Words: "Volume[{}] is not found", Meaning: VolumeNotFound},
		{Words: "can't execute 'iscsiadm'", Meaning: ToolMissing,
			Helps:  "Install the iSCSI client (open-iscsi) on the node; if it is there, let the driver's node pod find it (its path in the chroot).",
			Source: "https://github.com/SynologyOpenSource/synology-csi/issues/111"},
		{Words: "Failed to login with target iqn", Meaning: PathsMissing, Wrapper: true},
		{Words: "Can't find device path", Meaning: DeviceMissing},
		{Words: "Failed to get DSM[", Meaning: DriverConfig,
			Helps: "{check} Check address, user and password of this DSM in the driver's client-info Secret."},
		{Words: "Failed to set NFS privilege rule", Meaning: PermissionDenied, Wrapper: true},
	},
}
