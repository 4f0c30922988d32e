package driverwords

// hpe holds the words of the HPE driver.
var hpe = family{
	drivers: []string{"csi.hpe.com"},
	source:  "hpe-storage/csi-driver pkg/driver/node_server.go@v3.2.0",
	entries: []Entry{
		{Words: "will not be repaired for the volume {} as the fsRepair parameter is not set", Meaning: FilesystemDamaged,
			Helps: "Take a snapshot, then repair the file system while it is mounted nowhere, or set fsRepair in the StorageClass."},
		{Words: "Repairing the file system for the volume {} failed", Meaning: FilesystemDamaged},
		{Words: "device not found with serial", Meaning: DeviceMissing,
			Helps:  "{check} Check on the node the iSCSI or Fibre Channel sessions, multipathd and its blacklist, and on the array that the volume is exported to this host.",
			Source: "https://github.com/hpe-storage/csi-driver/issues/208"},
		{Words: "failed to find any ready target port on array", Meaning: PathsMissing, Actor: StorageAdmin,
			Helps:  "{check} Check that accessProtocol in the StorageClass fits the array's ports and that a target port is ready.",
			Source: "https://github.com/hpe-storage/csi-driver/issues/380"},
		{Words: "Host details {} not found in CRD", Meaning: NodeUnknown,
			Helps:  "{restart-node-plugin}: it writes the node's HPENodeInfo.",
			Source: "https://github.com/hpe-storage/csi-driver/issues/480"},
		{Words: "failed to find encryption secret for secret name", Meaning: SecretMissing},
		{Words: "luksClose command failed", Meaning: DeviceBusy, Wrapper: true},
		{Words: "unable to find the device for volume", Meaning: DeviceMissing},
		{Words: "Failed to get initiators for host", Meaning: PathsMissing},
		{Words: "has path other than lunID", Meaning: PathsMissing,
			Helps:  "Rescan the devices on the node: an old LUN has left stale paths.",
			Source: "hpe-storage/common-host-libs linux/device.go@v5.0.0"},
	},
}
