package driverwords

// mayastor holds the words of the OpenEBS Mayastor driver.
var mayastor = family{
	drivers: []string{"io.openebs.csi-mayastor"},
	source:  "openebs/mayastor-control-plane control-plane/csi-driver/src/bin/controller/controller.rs@v2.7.1",
	entries: []Entry{
		{Words: "is only accessible to nodes: {...}, and not to", Meaning: AttachedElsewhere,
			Helps: "{wait} until the volume is unpublished from the other node; if that machine is powered off for good, diagnose of that node says how the volume is detached from it."},
		{Words: "already shared via different protocol", Meaning: BadParameters},
		{Words: "reports no info about its publishing status", Meaning: VolumeNotReady},
		{Words: "has been successfully published but URI is not available", Meaning: VolumeNotReady},
		{Words: "URI attribute missing from publish context", Meaning: NotAttached,
			Source: "openebs/mayastor-control-plane control-plane/csi-driver/src/bin/node/node.rs@v2.7.1"},
		{Words: "Failed to stage volume {}: attach failed", Meaning: PathsMissing,
			Helps:  "{check} Check that the kernel module nvme_tcp is loaded and that the node reaches the target's address.",
			Source: "openebs/mayastor-control-plane control-plane/csi-driver/src/bin/node/node.rs@v2.7.1"},
		{Words: "device attach timeout", Meaning: DeviceMissing,
			Helps:  "{check} Check that the kernel module nvme_tcp is loaded and that the node reaches the target node on TCP 8420 and 10124.",
			Source: "openebs/mayastor-control-plane control-plane/csi-driver/src/bin/node/dev.rs@v2.7.1"},
		{Words: "is already mounted elsewhere", Meaning: DeviceBusy,
			Source: "openebs/mayastor-control-plane control-plane/csi-driver/src/bin/node/filesystem_vol.rs@v2.7.1"},
		{Words: "does not match staged volume", Meaning: WrongFilesystem,
			Source: "openebs/mayastor-control-plane control-plane/csi-driver/src/bin/node/filesystem_vol.rs@v2.7.1"},
		{Words: "volume is staged as \"ro\" but publish requires \"rw\"", Meaning: ReadOnly,
			Source: "openebs/mayastor-control-plane control-plane/csi-driver/src/bin/node/filesystem_vol.rs@v2.7.1"},
		{Words: "NVMe device not found", Meaning: DeviceMissing,
			Source: "openebs/mayastor-control-plane control-plane/csi-driver/src/bin/node/dev/nvmf.rs@v2.7.1"},
		{Words: "iscsiadm binary not found", Meaning: ToolMissing,
			Source: "openebs/mayastor-control-plane control-plane/csi-driver/src/bin/node/dev/iscsi/iscsiadm.rs@v2.7.1"},
		{Words: "No online replicas are available for Volume", Meaning: VolumeFailed,
			Helps:  "{check} Look at the volume's replicas and their pools (kubectl mayastor get volumes, get pools): none of the replicas is online.",
			Source: "https://github.com/openebs/mayastor/issues/1728"},
		{Words: "Node '{}' is not online", Meaning: NodeUnknown,
			Helps:  "{check} Check that Mayastor's io-engine and CSI pods run on the node, and that its control plane has the node online (kubectl mayastor get nodes).",
			Source: "https://github.com/openebs/mayastor/issues/1148"},
		{Words: "NVMe connect failed: /dev/nvme-fabrics", Meaning: ToolMissing,
			Helps:  "Load the kernel module nvme_tcp on the node, and let it be loaded at each start.",
			Source: "https://github.com/openebs/mayastor/issues/1235"},
	},
}

// cstor holds the words of the OpenEBS cStor driver.
var cstor = family{
	drivers: []string{"cstor.csi.openebs.io"},
	source:  "openebs/cstor-csi pkg/driver/node_utils.go@v3.6.0",
	entries: []Entry{
		{Words: "Waiting for {}'s CVC to be bound", Meaning: VolumeNotReady,
			Helps: "{wait}; {if if it lasts,} look at the CStorVolumeConfig and the CStorPoolInstances."},
		{Words: "still mounted on node", Meaning: AttachedElsewhere,
			Helps: "{check} See that the volume is unmounted on the other node; if that machine is powered off for good, ask the guide of OpenEBS for a lost node."},
		{Words: "still mounted on node:", Meaning: AttachedElsewhere,
			Helps: "{check} See that the volume is unmounted on the other node; if that machine is powered off for good, ask the guide of OpenEBS for a lost node."},
		{Words: "connect reported success, but no path returned", Meaning: DeviceMissing},
		{Words: "Could not attach disk: Timeout after 10s", Meaning: DeviceMissing,
			Helps:  "{check} Check the iSCSI session on the node and the volume's target pod.",
			Source: "openebs/cstor-csi pkg/iscsi/iscsi_util.go@v3.6.0"},
		{Words: "iscsi: failed to attach disk", Meaning: PathsMissing,
			Helps:  "{check} Check that iscsid runs on the node and that it reaches the volume's target service.",
			Source: "openebs/cstor-csi pkg/iscsi/iscsi_util.go@v3.6.0"},
		{Words: "iSCSI target information is missing", Meaning: BadParameters,
			Source: "openebs/cstor-csi pkg/iscsi/iscsi_extra_utils.go@v3.6.0"},
		{Words: "Busy, status:", Meaning: OperationPending,
			Source: "openebs/cstor-csi pkg/driver/utils.go@v3.6.0"},
		{Words: "is not ready: Replicas yet to connect to controller", Meaning: VolumeNotReady,
			Helps:  "{wait}; {if if it lasts,} look at the volume's target pod and at the CStorPoolInstances of its replicas.",
			Source: "https://github.com/openebs-archive/cstor-operators/issues/467"},
	},
}

// jiva holds the words of the OpenEBS Jiva driver.
var jiva = family{
	drivers: []string{"jiva.csi.openebs.io"},
	entries: []Entry{
		{Words: "is already mounted at more than one place: {{", Meaning: AttachedElsewhere,
			Helps:  "{check} See that the volume is unmounted on the node that the label nodeID of its JivaVolume names; a node that is not Ready does not hold it.",
			Source: "openebs/jiva-operator pkg/driver/node.go@v3.6.0"},
		{Words: "is already mounted at more than one place: {[", Meaning: DeviceBusy,
			Helps:  "Unmount the volume where nothing on the node uses it: the driver found it mounted at these paths.",
			Source: "openebs/jiva-operator pkg/driver/node.go@v3.6.0"},
		{Words: "Max retry count exceeded, volume:", Meaning: VolumeNotReady,
			Helps:  "{check} Look at the status of the JivaVolume, and at the pods of the volume's controller and replicas.",
			Source: "openebs/jiva-operator pkg/driver/mount.go@v3.6.0"},
	},
}

// lvm holds the words of the OpenEBS LVM driver.
var lvm = family{
	drivers: []string{"local.csi.openebs.io"},
	source:  "openebs/lvm-localpv pkg/lvm/mount.go@v1.5.0",
	entries: []Entry{
		{Words: "verifyMount: volume is owned by different node", Meaning: ZoneMismatch,
			Helps: "Run the pod on the node that has the volume: the data is on that node only."},
		{Words: "verifyMount: volume is not ready to be mounted", Meaning: VolumeNotReady},
		{Words: "verifyMount: device already mounted at", Meaning: DeviceBusy},
		{Words: "failed to format and mount the volume error", Meaning: StorageError, Wrapper: true},
		{Words: "scheduler failed, not able to select a node to create the PV", Meaning: ZoneMismatch, Actor: ClusterAdmin,
			Helps:  "{check} Check that a node has the volume group of the StorageClass and enough free space in it.",
			Source: "openebs/lvm-localpv pkg/driver/controller.go@v1.5.0"},
		{Words: "openebs.io/volgroup key missing in VolumeContext", Meaning: BadParameters,
			Source: "openebs/lvm-localpv pkg/driver/agent.go@v1.5.0"},
	},
}

// zfs holds the words of the OpenEBS ZFS driver.
var zfs = family{
	drivers: []string{"zfs.csi.openebs.io"},
	source:  "openebs/zfs-localpv pkg/zfs/mount.go@v2.6.2",
	entries: []Entry{
		{Words: "verifyMount: volume is owned by different node", Meaning: ZoneMismatch,
			Helps: "Run the pod on the node that has the volume: the data is on that node only."},
		{Words: "verifyMount: volume is not ready to be mounted", Meaning: VolumeNotReady},
		{Words: "verifyMount: device already mounted at", Meaning: DeviceBusy},
		{Words: "not able to format and mount the zvol", Meaning: StorageError, Actor: NodeAdmin},
		{Words: "dataset: mount failed err", Meaning: StorageError, Actor: NodeAdmin,
			Helps: "{check} Check on the node that the pool is imported and the dataset exists (\"zfs list\")."},
		{Words: "zfs: not able to get the device", Meaning: DeviceMissing,
			Source: "openebs/zfs-localpv pkg/zfs/zfs_util.go@v2.6.2"},
		{Words: "can not delete, volume creation is in progress", Meaning: OperationPending,
			Source: "openebs/zfs-localpv pkg/driver/controller.go@v2.6.2"},
	},
}
