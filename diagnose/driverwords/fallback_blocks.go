package driverwords

// rbdTool holds what the rbd program says, whatever driver runs it.
var rbdTool = family{
	source: "ceph/ceph src/krbd.cc@02b290cc03a18f024b5f01657377606922db419f",
	entries: []Entry{
		{Words: "rbd: failed to load rbd kernel module", Meaning: ToolMissing,
			Helps: "Load the kernel module rbd on the node; the kernel package may lack it."},
		{Words: "RBD image feature set mismatch", Meaning: NodeIncompatible,
			Helps:  "Upgrade the node's kernel, or disable the image features that it lacks with \"rbd feature disable\", or use rbd-nbd.",
			Source: "ceph/ceph src/tools/rbd/action/Kernel.cc@01840a47b8971b3943be9b628478d13a8870ad70"},
		{Words: "rbd: failed to get secret", Meaning: SecretMissing},
		{Words: "rbd: mapping succeeded but {} is not accessible, is host /dev mounted?", Meaning: DriverConfig,
			Helps: "Mount the host's /dev into the driver's node pod."},
		{Words: "(exit status 13) occurred while running rbd args", Meaning: PermissionDenied,
			Helps:  "{check} Check the user, its key and its capabilities on the pool (\"ceph auth get\").",
			Source: "https://github.com/ceph/ceph-csi/issues/5150"},
		{Words: "(exit status 5) occurred while running rbd args", Meaning: StorageError,
			Helps:  "{check} Read the kernel log of the node, and check \"ceph status\" and the network to the OSDs.",
			Source: "https://github.com/ceph/ceph-csi/issues/2397"},
		{Words: "rbd: map failed: (110) Connection timed out", Meaning: Unreachable,
			Helps:  "{check} Check that the node reaches the monitors; for port 3300 the kernel needs ms_mode in the map options.",
			Source: "https://github.com/rook/rook/issues/8464"},
		{Words: "rbd: map failed: (13) Permission denied", Meaning: PermissionDenied,
			Helps:  "{check} Check the user, its key and its capabilities on the pool (\"ceph auth get\").",
			Source: "https://github.com/ceph/ceph-csi/issues/5150"},
		{Words: "rbd: map failed: (5) Input/output error", Meaning: StorageError,
			Helps:  "{check} Read the kernel log of the node, and check \"ceph status\" and the network to the OSDs.",
			Source: "https://github.com/ceph/ceph-csi/issues/2397"},
	},
}

// iscsi holds what iscsiadm says; the number is its exit code.
var iscsi = family{
	source: "open-iscsi/open-iscsi usr/iscsi_err.c@2.1.11",
	entries: []Entry{
		{Words: "encountered connection failure", Meaning: Unreachable},
		{Words: "encountered iSCSI login failure", Meaning: PathsMissing},
		{Words: "encountered iSCSI database failure", Meaning: PathsMissing,
			Helps: "Delete the broken records under /etc/iscsi/nodes or /var/lib/iscsi/nodes on the node and discover the target again."},
		{Words: "initiator reported error (8 - connection timed out)", Meaning: Unreachable},
		{Words: "encountered iSCSI logout failure", Meaning: DeviceBusy},
		{Words: "iSCSI PDU timed out", Meaning: Unreachable},
		{Words: "iSCSI driver not found. Please make sure it is loaded", Meaning: ToolMissing,
			Helps: "Load the kernel module iscsi_tcp on the node."},
		{Words: "could not communicate to iscsid", Meaning: ToolMissing,
			Helps: "Start iscsid on the node."},
		{Words: "encountered non-retryable iSCSI login failure", Meaning: PermissionDenied,
			Helps: "Allow the node's initiator name on the target, and check the CHAP settings."},
		{Words: "could not connect to iscsid", Meaning: ToolMissing,
			Helps: "Start iscsid on the node."},
		{Words: "iSCSI login failed due to authorization failure", Meaning: PermissionDenied,
			Helps: "{check} Check the CHAP user and password, and that the target allows the node's initiator name."},
		{Words: "device or resource in use", Meaning: DeviceBusy},
		{Words: "target likely not connected", Meaning: PathsMissing},
		{Words: "iscsid request timed out", Meaning: PathsMissing,
			Helps: "{restart-node-service iscsid}."},
		{Words: "iscsiadm: No records found", Meaning: PathsMissing,
			Helps:  "{check} Check that discovery of the portal works; the node has no record of the target.",
			Source: "open-iscsi/open-iscsi usr/iscsiadm.c@2.1.11"},
		{Words: "device not found", Meaning: DeviceMissing,
			Source: "kubernetes/kubernetes pkg/volume/util/volumepathhandler/volume_path_handler.go@v1.36.3"},
		{Words: "failed to get any path for iscsi disk", Meaning: PathsMissing,
			Helps:  "{check} Check that the iSCSI client (open-iscsi) is installed and iscsid runs on the node, and that the node reaches the portal on TCP 3260.",
			Source: "kubernetes/kubernetes pkg/volume/iscsi/iscsi_util.go@v1.36.3"},
	},
}

// multipath holds what multipath and the library that calls it say.
var multipath = family{
	source: "kubernetes-csi/csi-lib-iscsi iscsi/iscsi.go@646e27f7a299",
	entries: []Entry{
		{Words: "map in use", Meaning: DeviceBusy,
			Helps:  "{check} Find on the node what holds the multipath device (lsblk, dmsetup ls --tree, fuser).",
			Source: "opensvc/multipath-tools libmultipath/devmapper.c@0.14.3"},
		{Words: "DM {} kernel driver not loaded", Meaning: ToolMissing,
			Helps:  "Load the kernel module dm_multipath on the node.",
			Source: "opensvc/multipath-tools libmultipath/devmapper.c@0.14.3"},
		{Words: "is not a multipath device", Meaning: PathsMissing,
			Source: "opensvc/multipath-tools multipath/main.c@0.14.3"},
		{Words: "device is not mapped to exactly one multipath device", Meaning: PathsMissing,
			Helps: "{check} Check that multipathd runs on the node and does not blacklist the device."},
		{Words: "devices don't share a common multipath device", Meaning: PathsMissing},
		{Words: "device is probably still in use somewhere else", Meaning: DeviceBusy,
			Source: "kubernetes-csi/csi-lib-iscsi iscsi/multipath.go@646e27f7a299"},
		{Words: "failed to find device path: {...}, last error seen", Meaning: DeviceMissing, Wrapper: true},
	},
}

// luks holds what cryptsetup says.
var luks = family{
	entries: []Entry{
		{Words: "No key available with this passphrase", Meaning: EncryptionKey,
			Source: "mbroz/cryptsetup src/utils_password.c@v2.8.6"},
		{Words: "is not a valid LUKS device", Meaning: WrongFilesystem,
			Helps:  "{check} Check what the device holds (blkid): it was not encrypted, or its header is damaged.",
			Source: "mbroz/cryptsetup lib/setup.c@v2.8.6"},
		{Words: "Cannot use device {} which is in use", Meaning: DeviceBusy,
			Source: "mbroz/cryptsetup lib/utils_device.c@v2.8.6"},
		{Words: "Device {} does not exist or access denied", Meaning: DeviceMissing,
			Source: "mbroz/cryptsetup lib/utils_device.c@v2.8.6"},
		{Words: "Cannot format device {} in use", Meaning: DeviceBusy,
			Source: "mbroz/cryptsetup lib/setup.c@v2.8.6"},
	},
}
